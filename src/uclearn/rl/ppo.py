"""Proximal policy optimisation (Schulman et al., 2017) of whatever a method owns.

    ratio  = pi(action | observation) / pi_before(action | observation)
    policy = - mean of min( ratio A, clamp(ratio, 1 - clip, 1 + clip) A )
    value  = 1/2 mean of max( (V - R)^2, (V_before + clamp(V - V_before, -clip, clip) - R)^2 )
    loss   = policy + value_weight value - entropy_weight entropy

A is the advantage, standardised over the rollout, R the return. A step of the optimiser says a
method's hooks in the order in which supervised training calls them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uclearn.errors import TaskError
from uclearn.methods.contract import Method, Step
from uclearn.native.adam import Adam
from uclearn.rl.plan import PPOPlan
from uclearn.rl.policy import entropy, log_probability, view
from uclearn.rl.rollout import RolloutBatch


class Losses(NamedTuple):
    """The parts of the loss, (), and what they tell."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    ratio: Tensor  # (batch,)


@dataclass(frozen=True)
class UpdateSummary:
    """What one iteration's updates did, averaged over its last epoch."""

    policy_loss: float
    value_loss: float
    entropy: float
    clipped: float
    """The share of examples whose ratio left the clip range."""


def losses(outputs: Tensor, batch: RolloutBatch, clip: float, clip_value: bool = True) -> Losses:
    """The parts of the loss of a batch, from the network's outputs for its observations."""
    mean, log_std, value = view(outputs)
    log_probabilities = log_probability(mean, log_std, batch.actions)
    ratio = torch.exp(log_probabilities - batch.log_probabilities)
    gain = ratio * batch.advantages
    cautious = ratio.clamp(1 - clip, 1 + clip) * batch.advantages
    policy = -torch.minimum(gain, cautious).mean()
    errors = (value - batch.returns).square()
    if clip_value:
        near = batch.values + (value - batch.values).clamp(-clip, clip)
        errors = torch.maximum(errors, (near - batch.returns).square())
    return Losses(policy, errors.mean() * 0.5, entropy(log_std).mean(), ratio)


def make_optimizer(method: Method, plan: PPOPlan) -> Adam:
    """A fresh Adam for a task; a method may have a learning rate of its own for some parameters."""
    groups = [group for group in method.parameter_groups(plan.lr) if group["params"]]
    optimizer = Adam(groups, lr=plan.lr, eps=plan.adam_epsilon, fused=True)
    for group in optimizer.param_groups:
        group["initial_lr"] = group["lr"]
    return optimizer


def decay(optimizer: torch.optim.Optimizer, iteration: int, iterations: int) -> None:
    """The learning rates for this iteration: on the line from the initial ones to 0."""
    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] * (1 - iteration / iterations)


def ppo_step(
    method: Method,
    batch: RolloutBatch,
    step: Step,
    plan: PPOPlan,
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[nn.Parameter],
) -> Losses:
    """One move of the optimiser; the gradient of its `parameters` is clipped."""
    method.begin_step(step)
    outputs = method.model(batch.observations, task=step.task)
    found = losses(outputs, batch, plan.clip, plan.clip_value)
    total = found.policy + plan.value_weight * found.value
    if plan.entropy_weight:
        total = total - plan.entropy_weight * found.entropy
    if not method.closed_form:
        total = total + method.penalty(step)
    optimizer.zero_grad()
    total.backward()
    if plan.clip_norm is None:
        method.move(optimizer, step)
    else:
        method.adjust_gradients(step)
        nn.utils.clip_grad_norm_(parameters, plan.clip_norm, foreach=True)
        optimizer.step()
    method.end_step(step)
    return found


def update(
    method: Method,
    rollout: RolloutBatch,
    task: int,
    plan: PPOPlan,
    optimizer: torch.optim.Optimizer,
    order: torch.Generator,
) -> UpdateSummary:
    """All epochs over one rollout; `order` shuffles its examples, anew for each."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    method.train()
    last: list[Losses] = []
    for _ in range(plan.epochs):
        last = []
        for number, batch in enumerate(minibatches(rollout, plan.minibatch_size, order)):
            size = len(batch.actions)
            step = Step(
                task=task,
                inputs=batch.observations,
                batch_size=size if plan.penalty_divisor == "size" else plan.minibatches,
                progress=number / plan.minibatches,
                examples=plan.iterations * plan.rollout_size,
            )
            last.append(ppo_step(method, batch, step, plan, optimizer, parameters))
    return _summary(last, plan)


def minibatches(rollout: RolloutBatch, size: int, order: torch.Generator) -> Iterator[RolloutBatch]:
    """The rollout, shuffled by one gather, in portions of `size`."""
    shuffled = torch.randperm(len(rollout.actions), generator=order)
    columns = [column.index_select(0, shuffled).split(size) for column in rollout]
    return (RolloutBatch(*parts) for parts in zip(*columns, strict=True))


@torch.no_grad()
def _summary(done: Sequence[Losses], plan: PPOPlan) -> UpdateSummary:
    *parts, ratios = zip(*done, strict=True)
    policy, value, entropy = (float(torch.stack(part).mean()) for part in parts)
    for name, loss in (("policy", policy), ("value", value)):
        if not math.isfinite(loss):
            raise TaskError(
                f"The {name} loss became {loss}. Lower `lr` (now {plan.lr:g}) or `clip_norm`, or "
                "look at the environment for observations and rewards without bounds."
            )
    clipped = ((torch.cat(ratios) - 1).abs() > plan.clip).float().mean()
    return UpdateSummary(policy, value, entropy, float(clipped))
