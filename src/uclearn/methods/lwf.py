"""LwF, learning without forgetting (Li & Hoiem, ECCV 2016).

Before a task is learned, a copy of the network is kept as a teacher. On the *new* task's inputs the
network must keep giving the answers that the teacher gives for the old tasks. The penalty is

    strength * sum over old tasks of  - sum_k  p'_k log p_k ,   averaged over the batch,

    p = softmax(z / T) of the network,   p' = softmax(z' / T) of the teacher,   T = 2.

By rule the strength is T^2. Of softened probabilities the curvature is 1/T^2 of that of the loss
that they stand for, so that it makes an old task count as much as the new one (Hinton, Vinyals and
Dean, 2015); published is 1.

(The paper raises probabilities to the power 1/T and renormalises, which is the same.) With a single
head that head is the old task. No data of old tasks are needed. The paper first trains the new head
alone for a while; here all is trained at once from the start.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, Literal, Self, Unpack, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from uclearn.choices import check_choice
from uclearn.errors import SettingError, TaskError
from uclearn.methods.contract import Inputs, Losses, Method, Step, StepFields, as_step, lent
from uclearn.methods.facts import Cost, Facts, Range, remembers_nothing
from uclearn.methods.parts.wrapper import Strength, Wrapper, check_strength, innermost
from uclearn.networks import MultiHead, answer, run_trunk
from uclearn.tasks.task import Task

Outputs = Literal["classes", "numbers"]


def distillation(logits: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of softened probabilities, `- sum_k p'_k log p_k`, averaged over the batch.

    Args:
        logits: (batch, classes, ...) of the network.
        taught: like `logits`: of the teacher.
        temperature: T; above 1 it brings out the smaller probabilities.

    By hand: p' = (1/2, 1/2), p = (1/4, 3/4) at T = 1: (log 4 + log 4/3) / 2 = 0.8370.

    >>> distillation(torch.tensor([[1.0, 3.0]]).log(), torch.tensor([[0.0, 0.0]]), 1.0)
    tensor(0.8370)
    """
    return F.cross_entropy(logits / temperature, (taught / temperature).softmax(dim=1))


def squared_distance(outputs: Tensor, taught: Tensor) -> Tensor:
    """`1/2 sum_k (z_k - z'_k)^2`, averaged over the batch: distillation of numbers.

    >>> squared_distance(torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 1.0]]))
    tensor(2.5000)
    """
    return (outputs - taught).square().flatten(1).sum(dim=1).mean() / 2


class Distils(Method):
    """What LwF does beside any method: a teacher, and how far the network is from it. A mixin: what
    it is put before has the network and the rest of the contract.

    Between `watch` and `forget_batch` what the trunk makes of the batch in the loop's own forward
    pass is used again, so that the student costs no second pass.
    """

    teachers: nn.ModuleList
    """None while the first task is learned, then one."""

    def set_up(self, strength: Strength, temperature: float, outputs: Outputs) -> None:
        """To be called when a network is there."""
        _check_settings(strength, temperature, outputs)
        self.strength, self.temperature, self.outputs = strength, temperature, outputs
        self.teachers = nn.ModuleList()
        self._trunk_cache = OutputCache()
        # the module is passed in: a copy of this method must freeze its own teacher
        self.register_load_state_dict_post_hook(_freeze_after_loading)  # type: ignore[no-untyped-call]

    @property
    def pull(self) -> float:
        """The strength as a number."""
        if not isinstance(self.strength, str):
            return self.strength
        return self.temperature**2 if self.outputs == "classes" else 1.0

    def check_outputs(self, task: Task) -> None:
        """Probabilities are compared where there are some."""
        if task.classes is None and self.outputs == "classes":
            raise TaskError(
                f"Task {task.name!r} has no classes, but `outputs` is 'classes', which compares "
                "probabilities. For regression build LwF with outputs='numbers'."
            )

    def watch(self) -> None:
        """Keep the trunk's output of the forward pass that follows."""
        if len(self.teachers):
            model = self.model
            self._trunk_cache.begin(model.trunk if isinstance(model, MultiHead) else model)

    def forget_batch(self) -> None:
        """Drop the trunk's output."""
        self._trunk_cache.end()

    def distance(self, step: Step, total: Tensor) -> Tensor:
        """`total`, and how far the answers for old tasks are from the teacher's, on the present
        inputs."""
        for teacher in self.teachers:
            why = "the answers of teacher and network are compared on them"
            inputs = step.need("inputs", why)
            with torch.no_grad():
                taught = run_trunk(teacher, inputs)
            learned = self._trunk_output(inputs)
            for heads in _alike(teacher):
                with torch.no_grad():
                    wanted = _answers(teacher, taught, heads)
                answers = _answers(self.model, learned, heads).to(wanted.dtype)
                answers = answers[
                    :, : wanted.shape[1]
                ]  # of outputs that came later it says nothing
                total = total + self.pull * self._distance(answers, wanted, len(heads))
        return total

    def teach(self, task: Task | None) -> None:
        """The network as it is now becomes the teacher."""
        self.forget_batch()
        learned = 1 + (self._heads_taught() if task is None else task.index)
        teacher = copy.deepcopy(self.model)
        if isinstance(teacher, MultiHead):
            del teacher.heads[max(learned, self._heads_taught()) :]
        self.teachers = nn.ModuleList([teacher])
        self._freeze()

    def train(self, mode: bool = True) -> Self:
        """The network learns; the teacher never does."""
        super().train(mode)
        self.teachers.eval()
        return self

    def _distance(self, answer: Tensor, taught: Tensor, heads: int) -> Tensor:
        """Summed over heads."""
        if self.outputs == "numbers":
            return squared_distance(answer, taught)
        return heads * distillation(answer, taught, self.temperature)

    def _trunk_output(self, inputs: Any) -> Any:
        """What the loop's own forward pass made of these inputs, or else another pass."""
        shared = self._trunk_cache.take(inputs)
        if shared is not None:
            return shared
        if torch.is_grad_enabled():
            return run_trunk(self.model, inputs)
        with lent(self.model) as network:  # who only looks moves no statistics and draws no dropout
            return run_trunk(network, inputs)

    def _heads_taught(self) -> int:
        return sum(len(t.heads) for t in self.teachers if isinstance(t, MultiHead))

    def _freeze(self) -> None:
        self.teachers.eval().requires_grad_(False)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        # the state may have been saved with a teacher or without; its heads it brings along
        self.teachers = nn.ModuleList()
        if any(key.startswith(f"{prefix}teachers.0.") for key in state_dict):
            teacher = copy.deepcopy(self.model)
            if isinstance(teacher, MultiHead):
                teacher.heads = nn.ModuleList()
            _shape_as_saved(teacher, state_dict, f"{prefix}teachers.0.")
            self.teachers.append(teacher)
        super()._load_from_state_dict(state_dict, prefix, *others)


class LwF(Distils):
    """The network keeps answering as it did: distillation from itself before the task.

    Needs the batch in every step: `method.penalty(inputs=x)`. Between `begin_step` and `end_step`
    what the trunk makes of the batch in the loop's own forward pass is used again, so that the
    student costs no second pass; without `begin_step` it does. A step costs one more forward pass
    (the teacher's) and the old heads, which grow in number; memory is one more network.

    Args:
        model: the network; the method works on a copy.
        example: not needed.
        strength: weight of the old tasks' answers against the new task's loss. `"auto"`: an old
            task counts as much as the new one; that is T^2 for classes and 1 for numbers.
        temperature: T; the paper uses 2.
        outputs: `"classes"` compares probabilities; `"numbers"` (regression) compares the
            outputs themselves, `1/2 ||z - z'||^2`.

    >>> method = LwF(nn.Linear(2, 3))
    >>> method.end_task()
    >>> method.begin_step()
    >>> x = torch.tensor([[1.0, -1.0]])
    >>> loss = method.model(x).logsumexp(1).mean() + method.penalty(inputs=x)
    """

    facts = Facts(
        search={"strength": Range(0.03, 10.0, log=True)},
        tried={"strength": (0.1, 0.3, 1.0, 3.0, 10.0)},
        cost=lambda n: Cost(2 * n.plain, n.plain, working=-n.head),
        grow=remembers_nothing,  # the teacher stays as it is
    )

    def __init__(
        self,
        model: nn.Module,
        example: Any = None,
        *,
        strength: Strength = "auto",
        temperature: float = 2.0,
        outputs: Outputs = "classes",
    ) -> None:
        super().__init__(model)
        self.set_up(strength, temperature, outputs)

    def begin_task(self, task: Task) -> Task:
        """A head for the task."""
        self.check_outputs(task)
        return super().begin_task(task)

    def begin_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Keep the trunk's output of the forward pass that follows."""
        self.watch()

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """How far the answers for old tasks are from the teacher's, on the present inputs."""
        return self.distance(as_step(step, given), super().penalty())

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """Drop the trunk's output."""
        self.forget_batch()

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """The network as it is now becomes the teacher."""
        self.teach(task)


class WithLwF(Distils, Wrapper):
    """Any method, with LwF's pull at what the network answers: `ucl+lwf`.

    Not around methods whose network says something else while it learns than in use: HAT, whose
    gates ask for the task, and VCL, which puts out several draws.

    Args:
        method: the method that is wrapped; not copied.
        strength: as LwF's.
        temperature: as LwF's.
        outputs: as LwF's.

    >>> from uclearn import UCL
    >>> method = WithLwF(UCL(nn.Linear(2, 3), torch.zeros(1, 2)))
    >>> x = torch.tensor([[1.0, -1.0]])
    >>> method.end_task(inputs=[x])
    >>> loss = method.model(x).logsumexp(1).mean() + method.penalty(inputs=x, batch_size=1)
    """

    facts = Facts(search={"strength": Range(0.03, 10.0, log=True)})

    def __init__(
        self,
        method: Method,
        *,
        strength: Strength = "auto",
        temperature: float = 2.0,
        outputs: Outputs = "classes",
    ) -> None:
        inner = innermost(method)
        if not inner.facts.answers_alike or any(isinstance(m, Distils) for m in _inside(method)):
            raise SettingError(
                f"LwF cannot be put around {type(inner).__name__}: its network must answer alike "
                "while it learns and in use, and have one teacher. Choose another method."
            )
        Wrapper.__init__(self, method)
        self.closed_form = False  # the pull goes through the loss; the inner method's need not
        self.set_up(strength, temperature, outputs)

    def begin_task(self, task: Task) -> Task:
        """As the inner method."""
        self.check_outputs(task)
        return self.method.begin_task(task)

    def begin_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method; and keep the trunk's output of the forward pass that follows."""
        self.method.begin_step(step, **given)
        self.watch()

    def penalty(self, step: Step | None = None, **given: Unpack[StepFields]) -> Tensor:
        """The inner method's, and the distance from the teacher."""
        return self.distance(as_step(step, given), self.method.penalty(step, **given))

    def end_step(self, step: Step | None = None, **given: Unpack[StepFields]) -> None:
        """As the inner method."""
        self.method.end_step(step, **given)
        self.forget_batch()

    def end_task(
        self, task: Task | None = None, losses: Losses | None = None, *, inputs: Inputs = None
    ) -> None:
        """The inner method consolidates; then the network becomes the teacher."""
        self.forget_batch()
        self.method.end_task(task, losses, inputs=inputs)
        self.teach(task)


def _inside(method: Method) -> Iterator[Method]:
    yield method
    while isinstance(method, Wrapper):
        method = method.method
        yield method


def _shape_as_saved(teacher: nn.Module, saved: dict[str, Any], prefix: str) -> None:
    """The network may have grown since it became a teacher."""
    if isinstance(teacher, MultiHead) and f"{prefix}heads.0.weight" in saved:
        teacher.features = saved[f"{prefix}heads.0.weight"].shape[1]
    for place, layer in teacher.named_modules():
        for held in (layer._parameters, layer._buffers):
            for name, own in held.items():
                then = saved.get(f"{prefix}{place}.{name}".replace("..", "."))
                if own is not None and then is not None and then.shape != own.shape:
                    fresh = own.new_empty(then.shape)
                    held[name] = nn.Parameter(fresh) if isinstance(own, nn.Parameter) else fresh
        if isinstance(layer, nn.Linear):
            layer.out_features, layer.in_features = layer.weight.shape


def _freeze_after_loading(method: Distils, _: Any) -> None:
    method._freeze()


def _alike(teacher: nn.Module) -> list[list[int]]:
    """The numbers of the heads, those with as many outputs together; one head is number 0."""
    if not isinstance(teacher, MultiHead):
        return [[0]]
    by_size: dict[int, list[int]] = {}
    for number, head in enumerate(teacher.heads):
        by_size.setdefault(cast(nn.Linear, head).out_features, []).append(number)
    return list(by_size.values())


def _answers(network: nn.Module, shared: Any, heads: list[int]) -> Tensor:
    """(batch, outputs, heads): what these heads make of the trunk's output, in one product. Heads
    come last: probabilities along a short last dimension cost several times as much."""
    if not isinstance(network, MultiHead):
        return answer(shared)
    chosen = [cast(nn.Linear, network.heads[number]) for number in heads]
    weight = torch.stack([head.weight for head in chosen], dim=1).flatten(0, 1)
    bias = torch.stack([head.bias for head in chosen], dim=1).flatten()
    # under autocast the trunk may have put out fewer digits than the heads hold
    outputs = F.linear(shared.to(weight.dtype), weight, bias)
    by_head: Tensor = outputs.unflatten(-1, (-1, len(heads)))
    return by_head


def _check_settings(strength: Strength, temperature: float, outputs: Outputs) -> None:
    weighs = "It weighs the answers for old tasks against the new task's loss; the paper uses 1."
    check_strength(strength, weighs)
    if not (temperature > 0 and math.isfinite(temperature)):
        raise SettingError(
            f"`temperature` must be positive and finite, got {temperature}. It softens the "
            "probabilities that are compared; the paper uses 2."
        )
    check_choice("outputs", outputs, get_args(Outputs))


class OutputCache:
    """Remembers what a module last made of its input, while it is watched.

    Only passes that can be learned from count: in training mode, with gradients. A copy of a cache
    remembers nothing, since what it remembers belongs to a graph that cannot be copied.

    >>> layer, cache, x = nn.Linear(2, 1), OutputCache(), torch.zeros(3, 2)
    >>> cache.begin(layer)
    >>> y = layer(x)
    >>> cache.take(x) is y, cache.take(x)
    (True, None)
    >>> cache.end()
    """

    def __init__(self) -> None:
        self._handle: RemovableHandle | None = None
        self._latest: tuple[Any, Any] | None = None

    def begin(self, module: nn.Module) -> None:
        """From now on remember what `module` (and nothing else) puts out."""
        self.end()
        self._handle = module.register_forward_hook(self._see)

    def take(self, inputs: Any) -> Any:
        """The output for these very inputs, once; None if they were not the latest."""
        latest, self._latest = self._latest, None
        return latest[1] if latest is not None and latest[0] is inputs else None

    def end(self) -> None:
        """Stop watching the module and drop its output."""
        if self._handle is not None:
            self._handle.remove()
        self._handle = self._latest = None

    def _see(self, module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if inputs and module.training and torch.is_grad_enabled():
            self._latest = (inputs[0], output)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()
