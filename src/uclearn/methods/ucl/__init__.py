"""UCL, uncertainty-regularised continual learning (Ahn, Cha, Lee, Moon; NeurIPS 2019).

Every node carries an uncertainty sigma. While task t is learned, the loss is (paper, eq. 7)

    mean loss  +  1/batch * sum over layers of
        1/2 || Lambda (mean - mean') ||^2                     eq. (4)  drift
      + sigma_init^2 || (mean'/sigma')^2 (mean - mean') ||_1  eq. (5)  freeze
      + beta/2 sum_i [ (sigma/sigma')^2 - log (sigma/sigma')^2 + sigma^2 - log sigma^2 ]   eq. (6)

where ' marks what the previous task left. A node's strength is s = sigma_init/sigma'; a weight is
held by the stronger of the two nodes that it joins. While the first task is learned, eq. (5) is off
and eq. (4) pulls towards the initial means with weight alpha.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from uclearn.errors import SettingError, TaskError
from uclearn.gaussian import Noise, NoiseKind, Sampling, convert, export, survey
from uclearn.gaussian.convert import Means
from uclearn.methods.contract import (
    Inputs,
    Losses,
    Step,
    StepFields,
    as_step,
    groups_apart,
    is_own,
    lent,
)
from uclearn.methods.parts.wrapper import (
    DrawsWeights,
    ModuleGuard,
    require_finite_penalty,
    require_finite_weights,
)
from uclearn.methods.ucl.batch_norm import (
    BatchNormStatistics,
    RunningStatistics,
    tracking_norms,
)
from uclearn.methods.ucl.choice import NoticedChoice
from uclearn.methods.ucl.coverage import Coverage, follow, followed
from uclearn.methods.ucl.heads import OldHeads
from uclearn.methods.ucl.looking import Answers, Look, Surprise
from uclearn.methods.ucl.memory import Hold, Memory
from uclearn.methods.ucl.outputs import OutputAnchor
from uclearn.methods.ucl.pretrained import (
    answers_to,
    as_told,
    by_chance,
    of_answers,
    of_mean_squares,
    passes_over,
    told_by,
)
from uclearn.methods.ucl.rules import GUESSED, NOISE, Auto, lr_sigma_by_rule, share_of_sum
from uclearn.methods.ucl.seen import RecentCalls, forward_calls
from uclearn.methods.ucl.settings import FACTS, check_settings, start
from uclearn.native.adam import Adam
from uclearn.networks import MultiHead, head_names
from uclearn.penalties import known_gradient
from uclearn.tasks.task import Task

__all__ = ["UCL", "Hold"]

_log = logging.getLogger("uclearn")
_SURROGATE = (
    "UCL was shown nothing of what the pretrained network knows, so it holds what the network "
    "makes of the inputs %s. Better: `method.end_task(inputs=batches)`, before the first new task, "
    "with inputs that the network was trained on."
)


class UCL(DrawsWeights):
    """Hold the weights at certain nodes, leave uncertain nodes free, let go gracefully.

    Args:
        model: any network; copied, but for weights that are frozen, whose memory both share.
            Linear, Conv and Embedding layers have nodes and their noise; other parameters stay
            exact and are held as well (`coverage`).
        example: a small batch of inputs, to find out which nodes feed which weights (a tuple for
            several arguments).
        hold: what eq. (4) keeps: `"outputs"`, what nodes say to what they have been given (see
            `uclearn.penalties.outputs`), or `"weights"`, the weights themselves, as in the paper.
        beta: how fast uncertainty moves; larger forgets more gracefully and learns more freely.
            `"auto"`, as for sigma and lr_sigma: by rule (see `uclearn.methods.ucl.rules`).
        sigma: one initial standard deviation for all layers (the paper's 0.06), by rule a share of
            the size of each layer's weights; or None, and
        ratio: the share of each layer's initial variance given to noise.
        pretrained: the model has been trained before, and what it knows is held as a first task.
            Show it what it has learned, `method.end_task(inputs=batches)`, before the first new
            task; else what the first new task brings has to do.
        means: `"keep"` the model's weights, or `"draw"` new ones as He does, leaving room for
            the noise.
        alpha: weight of eq. (4) towards the initial means while the first task is learned.
        lr_sigma: learning rate of the uncertainties; None: that of the means; by rule 10 / steps of
            a task, at most 0.3 / sqrt(steps): a loop of your own says them (`method.task_steps =
            epochs * len(loader)`), else they are taken from the task before.
        sampling: `"local"` (fresh noise for each example, cheaper, often better) or `"weight"`
            (the paper's: one draw of the weights per batch).
        noisy_bias: biases have an uncertainty too (the paper's count of parameters has them).
        upper_freeze: a weight is also held by the node that feeds it (eq. 4); like eq. (5), of
            `hold="weights"` only.
        freeze: eq. (5).
        inflate: eq. (6).
        silence_idle: with `hold="outputs"`: when a task ends, weights from inputs of a layer that
            have been 0 in everything seen so far become 0, so that a node that wakes up later is
            not heard through weights that nobody asked for. Not for a network that knows more than
            UCL has seen, such as a pretrained one.
        heads_follow: with `hold="outputs"`: when a task ends, the heads of earlier tasks are turned
            so that they read in what the trunk has become what they read in what it was (see
            `uclearn.methods.ucl.heads`).
        plain: qualified names of modules (or single parameters) that stay plain and are not held,
            such as heads.
        batch_norm: running statistics of batch norms: `"frozen"` after the first task, kept
            `"per-task"`, or `"shared"` by all tasks, which loses most of the old ones.
        noise: `"table"` or `"fresh"` normal numbers (see `uclearn.gaussian.noise`).
        closed_form: add the penalty's gradient in `adjust_gradients` instead of through the
            loss: cheaper, for loops that call it.
        seed: for noise and drawn means.

    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> method = UCL(net, example=torch.zeros(1, 4), beta=0.03)
    >>> optimizer = torch.optim.Adam(method.parameter_groups(lr=1e-3))
    >>> loss = method.model(torch.randn(16, 4)).square().mean() + method.penalty(batch_size=16)
    >>> loss.backward(); optimizer.step(); method.end_task()
    >>> type(method.export()[0])
    <class 'torch.nn.modules.linear.Linear'>
    """

    facts = FACTS

    drift_weight: Tensor
    freeze_weight: Tensor
    tasks_done: Tensor
    steps_taken: Tensor
    batch_examples: Tensor

    def __init__(
        self,
        model: nn.Module,
        example: Any,
        *,
        hold: Hold = "outputs",
        beta: float | Auto = "auto",
        sigma: float | Auto | None = "auto",
        ratio: float | None = None,
        pretrained: bool = False,
        means: Means = "keep",
        alpha: float = 0.01,
        lr_sigma: float | Auto | None = "auto",
        sampling: Sampling = "local",
        noisy_bias: bool = False,
        upper_freeze: bool = True,
        freeze: bool = True,
        inflate: bool = True,
        silence_idle: bool = False,
        heads_follow: bool = True,
        plain: Iterable[str] = (),
        batch_norm: BatchNormStatistics = "frozen",
        noise: NoiseKind = "table",
        closed_form: bool = False,
        seed: int = 0,
    ) -> None:
        check_settings(hold, beta, alpha, lr_sigma)
        heads = head_names(model)
        plain = (*plain, *heads)
        topology, loose = followed(model, example, plain)
        stream = Noise(seed, kind=noise)
        if sigma == "auto" and ratio is None and means == "draw":
            ratio = NOISE
        converted = convert(
            model,
            sigma=start(sigma, ratio),
            ratio=ratio,
            means=means,
            sampling=sampling,
            noisy_bias=noisy_bias,
            plain=plain,
            strict=False,
            loose=loose,
            noise=stream,
            seed=seed,
        )
        super().__init__(converted, copied=True)
        self.noise = stream
        self.hold, self.alpha, self.lr_sigma = hold, alpha, lr_sigma
        self._beta_by_rule = beta == "auto"
        self.beta = 0.0 if beta == "auto" else beta  # by rule: follows from where layers started
        self.upper_freeze, self.freeze, self.inflate = upper_freeze, freeze, inflate
        self.silence_idle, self.pretrained = silence_idle, pretrained
        self.closed_form = closed_form
        self._lr: float | None = None

        self._found = found = survey(self.model, plain, strict=False, loose=loose)
        self.topology = topology
        self._memory = Memory(found, hold, pretrained)
        self.held, self._layers = self._memory.held, self._memory.layers
        alone = (
            n for n in plain if isinstance(found.opaque.get(n), nn.Linear)
        )  # one layer: a head
        self._coverage = Coverage.of(model, found, self.topology, (*heads, *alone))
        self._coverage.warn_if_little()
        self.register_buffer("drift_weight", torch.tensor(float(alpha)))
        self.register_buffer("freeze_weight", torch.tensor(0.0))
        self.register_buffer("tasks_done", torch.tensor(0))
        if lr_sigma == "auto":
            # (2,): of the task before, and so far of the present one
            self.register_buffer("steps_taken", torch.zeros(2, dtype=torch.int64))
        if hold == "outputs":
            # behind the largest step of the task: the last of an epoch is often but a rest
            self.register_buffer("batch_examples", torch.tensor(0))
        self._recent = RecentCalls()
        if hold == "outputs" or pretrained or tracking_norms(self.model):
            self._recent.listen_to(self.model)
        self._choice = NoticedChoice()
        if hold == "outputs":
            self._choice.listen_to(self.model)
        self.statistics = RunningStatistics(self.model, batch_norm)
        self._old_heads: OldHeads | None = None
        if heads_follow and hold == "outputs" and isinstance(self.model, MultiHead):
            self._old_heads = OldHeads(self.model.features)
        self._guard = ModuleGuard(self, {**self._layers, **self._memory.norms})
        # the hook is handed its module: a copy of this method must not reach back to it
        self.register_load_state_dict_post_hook(_restore_after_loading)  # type: ignore[no-untyped-call]
        self._tighten()

    # -- the contract ----------------------------------------------------------------------

    def begin_task(self, task: Task) -> Task:
        """A head for the task; before the first one, what a pretrained network knows is held."""
        if self._must_look_back():
            _log.warning(_SURROGATE, f"of task {task.name!r}")
            self._look_back(task, None, GUESSED)
        return super().begin_task(task)

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Means (and everything plain) at `lr`, uncertainties at `lr_sigma`.

        Weight decay, where an optimiser has it, is for the means: a decaying rho would drive
        every sigma towards softplus(0) = 0.69.
        """
        self._lr = float(lr)
        rhos = (rho for layer in self._layers.values() for rho in (layer.rho, layer.rho_bias))
        spreads = (rho for rho in rhos if rho is not None)
        lr_sigma = self.lr_sigma
        if lr_sigma == "auto":
            lr_sigma = lr_sigma_by_rule(self.task_steps or int(self.steps_taken[0]))
        return groups_apart(self.model, spreads, lr, lr_sigma)

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """Eq. (4) + eq. (5) + beta eq. (6), divided by the examples behind one move of the
        optimiser (`batch_size`: all micro-batches and processes).

        With gradient accumulation every one of n micro-batches adds its share,
        `((loss + penalty(batch_size=all)) / n).backward()`, or one of them adds all of it. With
        several processes whose gradients are averaged each adds `penalty(batch_size=all)`.
        """
        scale = 1 / self._batch_size(as_step(step, given))
        if torch.is_grad_enabled() and not self.closed_form:
            self._begin_move()
        parameters: list[Tensor] = []
        gradients: list[Tensor] = []
        total = torch.zeros((), device=self.drift_weight.device)
        with torch.no_grad():
            for term in self._penalty.terms(scale, self.beta, self.inflate):
                total = total + term.value  # not in place: a float64 value keeps its precision
                parameters.extend(term.parameters)
                gradients.extend(term.gradients)
        require_finite_penalty(total)
        return total if self.closed_form else known_gradient(total, parameters, gradients)

    def adjust_gradients(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """With `closed_form`: add the penalty's gradient in place."""
        if self.closed_form:
            self._add_gradients(as_step(step, given), None)

    def move(
        self, optimizer: Optimizer, step: Step | None = None, **given: Unpack[StepFields]
    ) -> None:
        """With `closed_form` and `uclearn.Adam`: in one pass over the weights."""
        plain = self.closed_form and is_own(self.adjust_gradients, UCL.adjust_gradients)
        if plain and isinstance(optimizer, Adam) and not optimizer.has_hooks:
            self._add_gradients(as_step(step, given), optimizer)
            optimizer.step()
        else:
            super().move(optimizer, step, **given)

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """Freeze means and uncertainties as what the next task must not forget."""
        self._guard.check()
        learned = ((n, p) for n, p in self.model.named_parameters() if p.requires_grad)
        require_finite_weights(learned)
        if inputs is not None:
            inputs = list(inputs)  # gone through more than once
        if self._must_look_back():
            self._look_back(task, inputs)
            return
        looked = self._look(task, losses, inputs)
        self.statistics.settle(
            self.model, self._calls(task, inputs), None if task is None else task.index
        )
        self._follow(self._calls(task, inputs), looked)
        self._memory.see(looked)
        if looked.batch_size > 0:
            self._memory.be_as_certain_as_measured(
                looked,
                self.beta,
                int(self.batch_examples),
                acted=task is not None and task.acts,
                lr=self._lr,
                share=share_of_sum(int(self.tasks_done) + 1),
            )
        if self.silence_idle:
            for held in self._memory.outputs():
                held.silence_idle()
        if self.lr_sigma == "auto" and self.steps_taken[1] > 0:
            self.steps_taken.copy_(torch.stack([self.steps_taken[1], torch.tensor(0)]))
        if self.hold == "outputs":
            self.batch_examples.zero_()
        self._hold_from_now_on(tasks=1)

    @contextmanager
    def inference(self, task: int | None = None) -> Iterator[nn.Module]:
        """The mean network; with per-task batch norm under that task's statistics."""
        with lent(self.model) as network, self.statistics.of(network, task):
            yield network

    # -- for people ------------------------------------------------------------------------

    def export(self) -> nn.Module:
        """An ordinary network of the original classes, with the mean weights."""
        return NoticedChoice.left_alone(RecentCalls.left_alone(export(self.model))).eval()

    def sigmas(self) -> dict[str, Tensor]:
        """Per layer the uncertainty of each node, (nodes,)."""
        return {name: layer.sigma.detach().clone() for name, layer in self._layers.items()}

    def strengths(self) -> dict[str, Tensor]:
        """Per layer how firmly each node is held, sigma_init / sigma', (nodes,)."""
        held = zip(self._layers, self._memory.gaussian(), strict=True)
        return {name: memory.strength() for name, memory in held}

    def coverage(self) -> Coverage:
        """What of the model is held, what is not, and why; printed, it is a page to read."""
        return self._coverage

    def taken(self) -> dict[str, float]:
        """Where outputs are held: per layer the share of the directions of its inputs in which
        something was seen so far; certain nodes are free to learn in the others."""
        held = zip(self._layers, self._memory.gaussian(), strict=True)
        return {name: m.seen.taken() for name, m in held if isinstance(m, OutputAnchor)}

    def retrace(self, example: Any) -> None:
        """Follow the nodes anew, for whoever resized layers of `model` and what is `held` of them
        in place (see `uclearn.surgery.growth`)."""
        self.topology = follow(self.model, example, self._found)
        self._tighten()

    # -- inside ----------------------------------------------------------------------------

    def _look(self, task: Task | None, losses: Losses | None, inputs: Inputs) -> Look:
        """What each layer is given in the task that ends, and how much hangs on each node."""
        if self.hold != "outputs":
            return Look()
        calls = self._calls(task, inputs)
        if task is not None and task.acts and losses is not None and self.batch_examples:
            looked = self._memory.look(self.model, told_by(losses), as_told)
        elif self.batch_examples and self._choice.understands:
            looked = self._memory.look(self.model, answers_to(calls), self._surprise(task))
        else:
            looked = self._memory.look(self.model, calls, None)
        if not looked.batch_size > 0 and not any(bool(n > 0) for n, *_ in looked.sums):
            raise TaskError(
                "UCL looks at what its layers were given in the task that ends, but there was "
                "none: no `task`, no `inputs`, and the model was not called in training mode. Pass "
                "batches of the task's inputs, `method.end_task(inputs=[x1, x2, ...])`."
            )
        return looked

    def _surprise(self, task: Task | None) -> Surprise:
        """By what a task says of its answers, or else by what was noticed of them."""
        noticed = self._choice.kind
        if task is None:
            return of_mean_squares if noticed == "numbers" else of_answers(noticed or "classes")
        if task.chooses:
            return of_answers("classes")
        return of_answers("labels" if noticed == "labels" else "numbers")

    def _calls(self, task: Task | None, inputs: Inputs) -> Iterator[Any]:
        head = int(self.tasks_done) if task is None else task.index
        return forward_calls(self.model, task, inputs, self._recent, head)

    def _follow(self, calls: Iterable[Callable[[], Any]], looked: Look | None) -> None:
        """Old heads read what the trunk has become, if it can be made again as it was."""
        heads, model = self._old_heads, self.model
        if heads is None or not isinstance(model, MultiHead):
            return
        steady = all(norm.steady for norm in tracking_norms(model)) or self.tasks_done == 0
        if steady and self._memory.holds_all_of(model.trunk):
            alike = 0.0 if looked is None else self._memory.alike(looked)
            heads.follow(model, calls, self._memory.as_it_was, alike)

    def _add_gradients(self, step: Step, optimizer: Adam | None) -> None:
        """The penalty's; what `optimizer` can add on its way is left to it."""
        scale = 1 / self._batch_size(step)
        self._begin_move()
        with torch.no_grad():
            self._penalty.add_gradients(scale, self.beta, self.inflate, optimizer)

    def _begin_move(self) -> None:
        if self._must_look_back():
            _log.warning(_SURROGATE, "that the model was called with first")
            self._look_back(None, None, GUESSED)
        if self.lr_sigma == "auto":
            self.steps_taken[1].add_(1)  # `+=` would write it back as well

    def _must_look_back(self) -> bool:
        return self.pretrained and not bool(self.freeze_weight > 0)

    def _look_back(self, task: Task | None, inputs: Inputs, share: float = 1.0) -> None:
        """Hold what the network knew before as a task that is over, with that share of the usual
        caution."""
        known = self.model if isinstance(self.model, MultiHead) else None
        classes = known is None or len(known.heads) > 0
        if task is not None and not task.chooses:
            classes = False

        def passes() -> Iterator[Answers]:
            return passes_over(self.model, task, inputs, self._recent)

        if next(passes(), None) is None:
            raise TaskError(
                "With `pretrained=True` UCL looks at what the network makes of inputs before it "
                "learns, but it was given none. Pass batches of what the network was trained on, "
                "`method.end_task(inputs=[x1, x2, ...])`, before the first new task."
            )
        looked = self._memory.look(self.model, passes(), by_chance(classes))
        self._memory.be_as_certain(looked, self.beta, share)
        self._follow(passes(), None)
        self._memory.see(looked)
        self.statistics.keep(self.model)
        self._hold_from_now_on(tasks=1 if known is None else len(known.heads))

    def _hold_from_now_on(self, tasks: int) -> None:
        """What is there now must not be forgotten; `tasks` more are done."""
        self._memory.remember()
        if self._old_heads is not None:
            self._old_heads.note(self.model)
        self._recent.clear()
        self._choice.clear()
        self.drift_weight.fill_(1.0)
        self.freeze_weight.fill_(1.0)
        self.tasks_done += tasks
        self._restore()

    def _restore(self) -> None:
        """Follow what the state says: after the end of a task and after loading one."""
        self.statistics.follow(self.model, known=bool(self.freeze_weight > 0))
        self._tighten()

    def _tighten(self) -> None:
        """Work out, from what is remembered, how firmly each weight is held."""
        if self._beta_by_rule:
            self.beta = self._memory.settle_beta()
        drift = self.drift_weight
        if self.hold == "outputs":
            drift = drift * share_of_sum(int(self.tasks_done))
        self._penalty = self._memory.tighten(
            self.topology, self.upper_freeze, drift, self._freeze_weight()
        )

    def _freeze_weight(self) -> Tensor | None:
        return self.freeze_weight if self.freeze and bool(self.freeze_weight > 0) else None

    def _batch_size(self, step: Step) -> int:
        self._guard.check()
        size = step.need("batch_size", "the penalty is divided by the examples of one step")
        if not size >= 1:
            raise SettingError(
                f"`batch_size` must be at least 1, got {size}. It counts the examples behind one "
                "move of the optimiser, over all micro-batches and processes."
            )
        if self.hold == "outputs":
            self.batch_examples.clamp_min_(int(size))
        return int(size)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        result = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if hasattr(self, "_guard"):
            self._tighten()  # what was worked out lives where the weights live
        return result


def _restore_after_loading(method: UCL, _: Any) -> None:
    method._restore()
