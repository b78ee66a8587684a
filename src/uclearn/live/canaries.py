"""What a learner keeps of each task it has learned: its canary, examples that are set apart and
never trained on, and hashes of what was trained on, which prove that the two do not overlap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor, nn

from uclearn.errors import DataError, SettingError, TaskError
from uclearn.fields import Examples, Fields, alike, as_buffers, as_fields, described
from uclearn.live.gate import Gate
from uclearn.live.new_data import NewData, as_data, check_inputs, check_labels
from uclearn.methods.contract import Method
from uclearn.methods.losses import correct
from uclearn.networks import run
from uclearn.tasks import Batch, Data, iterate
from uclearn.tasks.data import IGNORED, generator

_AT_ONCE = 256
_SHARE = 0.1
"""Of the new data, set apart where the gate names canaries for other tasks only."""


@dataclass(frozen=True)
class TaskRecord:
    """A task that was learned; `index` is its number and that of its head."""

    name: str
    index: int
    classes: int | None
    """None for regression."""
    labels: tuple[str, ...] = ()
    """Names of the classes, if they have any."""
    canary: Data | None = None
    """Examples that are never trained on."""
    first: Tensor | None = None
    """How they were answered when they were set apart, as `right_answers` has it; None: they have
    not guarded anything yet."""
    seen: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """Hashes of all examples that were trained on: eight bytes each."""
    groups: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """Hashes of the groups that its canary is made of, where examples come in groups."""
    groups_seen: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """And of those that were trained on."""

    def taught(self, train: Data, canary: Data | None, answers: Tensor | None) -> TaskRecord:
        """The same task after it was trained on `train`, guarded by `canary` as well, of which the
        model has those `answers` now."""
        seen = torch.cat([self.seen, hashes(_whole(train).inputs)]).unique()
        parts = [each for each in (self.first, answers) if each is not None]
        first = torch.cat(parts) if parts else None
        return replace(self, seen=seen, canary=_joined(self.canary, canary), first=first)

    def grouped(self, portions: Portions) -> TaskRecord:
        """The same, knowing which groups were on which side."""
        return replace(
            self,
            groups=torch.cat([self.groups, portions.groups]).unique(),
            groups_seen=torch.cat([self.groups_seen, portions.groups_seen]).unique(),
        )

    def validation(self, data: NewData, model: nn.Module, example: Any) -> Data:
        """Validation data of this task, refused if they do not fit it."""
        valid = replace(as_data(data, "validation"), task=self.index)
        check_inputs(model, valid.inputs, example, "validation")
        where = f"task {self.name!r} has {self.classes} classes"
        check_labels(valid, self.classes, where, "Leave those out.", "validation")
        return valid

    def document(self) -> dict[str, Any]:
        """For a saved state."""
        canary = None
        if self.canary is not None:
            batch = _whole(self.canary)
            inputs = batch.inputs
            saved = dict(inputs.items()) if isinstance(inputs, Fields) else inputs
            canary = {"inputs": saved, "targets": batch.targets}
        return {**vars(self), "labels": list(self.labels), "canary": canary}

    @classmethod
    def from_document(cls, saved: dict[str, Any]) -> TaskRecord:
        """What `document` described."""
        canary = saved["canary"]
        data = None
        if canary is not None:
            data = Data(as_fields(canary["inputs"]), canary["targets"], task=saved["index"])
        return cls(**{**saved, "labels": tuple(saved["labels"]), "canary": data})


@torch.no_grad()
def right_answers(method: Method, data: Data, index: int) -> Tensor:
    """(examples,) 1 where `method` is right about `data` of task `index`, else 0; where examples
    have several places, (examples, ...) one for each place, -1 where nothing is asked."""
    device = next(method.parameters()).device
    with method.inference(index) as network:
        found = [
            correct(run(network, batch.inputs.to(device), index).cpu(), batch.targets)
            .to(torch.int8)
            .masked_fill_(batch.targets == IGNORED, -1)
            for batch in iterate(data, _AT_ONCE)
        ]
    return torch.cat(found)


def share_right(answers: Tensor) -> float:
    """Of what `right_answers` says: how much of what was asked is right."""
    return float((answers[answers >= 0] > 0).double().mean())


# -- setting apart ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Portions:
    """New data, divided."""

    train: Data
    canary: Data | None
    left_out: int
    """Copies of canary examples that are in neither part."""
    groups: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """Hashes of the groups in the canary."""
    groups_seen: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """And of those to train on."""


def guarded(tasks: Iterable[TaskRecord], gate: Gate | None) -> list[TaskRecord]:
    """The known tasks, each with the canary that `gate` gives it where it has none.

    With a gate, a task without a canary is refused: its loss would go unnoticed.
    """
    known = list(tasks)
    if gate is None:
        return known
    if any(task.classes is None for task in known):
        raise SettingError(
            "`gate` compares accuracies, but targets here are numbers, not labels. Leave `gate` "
            "out and judge the update by a measure of your own."
        )
    return [_with_canary(task, gate) for task in known]


def _with_canary(task: TaskRecord, gate: Gate) -> TaskRecord:
    given = gate.given(task.name)
    if given is None and task.canary is None:
        raise TaskError(
            f"Task {task.name!r} has no canary, so nobody would notice what it loses. Give it one: "
            f"Gate(canary={{{task.name!r}: (inputs, targets)}}), of examples that were not "
            "trained on."
        )
    if given is None:
        return task
    canary = replace(as_data(given, f"canary of {task.name}"), task=task.index)
    what = f"examples of the canary given for task {task.name!r} were trained on before"
    refuse_overlap(hashes(canary.inputs), task.seen, what)
    return replace(task, canary=canary, first=None)


def divide(
    data: Data,
    name: str,
    gate: Gate | None,
    tasks: Iterable[TaskRecord],
    seed: int,
    groups: Sequence[str] | None = None,
) -> Portions:
    """The part of `data`, of the task `name`, to train on, and the part that will guard it; without
    a gate nothing is set apart. The canaries of known `tasks` must not be trained on. Examples of
    one of the `groups` are all on one side, in later updates too."""
    known = list(tasks)
    if groups is not None and len(groups) != len(data):
        raise DataError(
            f"`groups` must name one for each of the {len(data)} examples, got {len(groups)}."
        )
    own = None if groups is None else hashes_of_words(groups)
    portions = Portions(data, None, 0)
    if gate is not None:
        portions = _divided(data, name, gate, known, seed, own)
    trained = hashes(_whole(portions.train).inputs)
    for task in known:
        if task.canary is not None:
            what = f"training examples are also in the canary of task {task.name!r}"
            refuse_overlap(trained, hashes(_whole(task.canary).inputs), what)
    return portions


def _divided(
    data: Data,
    name: str,
    gate: Gate,
    tasks: list[TaskRecord],
    seed: int,
    groups: Tensor | None,
) -> Portions:
    if data.targets.is_floating_point():
        raise SettingError(
            "`gate` compares accuracies, but the targets of `data` are numbers, not labels. Leave "
            "`gate` out and judge the update by a measure of your own."
        )
    seen = torch.cat([torch.zeros(0, dtype=torch.int64), *(task.seen for task in tasks)])
    wanted = gate.canary
    if isinstance(wanted, Mapping):
        known = [task.name for task in tasks]
        for other in wanted:
            if other not in (*known, name):
                raise SettingError(
                    f"`canary` names a task that there is not: {other!r}. Tasks: "
                    f"{', '.join([*known, name])}."
                )
        wanted = _SHARE if name in known else wanted.get(name, _SHARE)
    if isinstance(wanted, int | float):
        count = round(wanted * len(data)) if wanted < 1 else int(wanted)
        order = torch.randperm(len(data), generator=generator(seed, f"canary of {name}"))
        if groups is None:
            return set_apart(data, max(count, 1), order, seen)
        return groups_apart(data, max(count, 1), order, seen, groups, tasks)
    canary = replace(as_data(wanted, "canary"), task=data.task)
    own = hashes(canary.inputs)
    refuse_overlap(hashes(data.inputs), own, "training examples are also in `canary`")
    refuse_overlap(own, seen, "examples of `canary` were trained on in an earlier update")
    if not alike(canary.inputs, data.inputs):
        raise DataError(
            f"`canary` must hold examples of the shape of `data`, {described(data.inputs)}, got "
            f"{described(canary.inputs)}."
        )
    return Portions(data, canary, 0)


def set_apart(data: Data, count: int, order: Tensor, seen: Tensor) -> Portions:
    """`data` in two without a common example: `count` different examples that are not among `seen`
    are the canary, the first in `order` (a permutation of positions); copies of them are left out
    of the rest. `seen` are hashes of what was trained on before."""
    own = hashes(_whole(data).inputs)
    fresh = ~torch.isin(own, seen)
    first: dict[int, int] = {}
    for position in order[fresh[order]].tolist():
        if len(first) == count:
            break
        first.setdefault(int(own[position]), position)
    chosen = torch.tensor(sorted(first.values()), dtype=torch.int64)
    rest = (~torch.isin(own, own[chosen])).nonzero().flatten()
    if not len(chosen) or not len(rest):
        raise DataError(
            f"`data` must hold enough different new examples to set {count} apart as a canary and "
            f"train on the rest; of {len(data)}, {len(own[fresh].unique())} are different and were "
            "not trained on before. Give more, or a canary of your own."
        )
    left_out = len(data) - len(rest) - len(chosen)
    return Portions(data.subset(rest), data.subset(chosen), left_out)


def groups_apart(
    data: Data,
    count: int,
    order: Tensor,
    seen: Tensor,
    groups: Tensor,
    tasks: Sequence[TaskRecord],
) -> Portions:
    """As `set_apart`, but whole groups, (examples,) hashes of their names: about `count` examples.
    Those that guard one of the known `tasks` guard again, those that were trained on do not."""
    none = torch.zeros(0, dtype=torch.int64)
    guards = torch.isin(groups, torch.cat([none, *(task.groups for task in tasks)]))
    trained = torch.isin(groups, torch.cat([none, *(task.groups_seen for task in tasks)]))
    chosen = guards.clone()
    for position in order[~(guards | trained)[order]].tolist():
        if int(chosen.sum()) >= count:
            break
        chosen |= groups == groups[position]
    own = hashes(_whole(data).inputs)
    fresh = chosen & ~torch.isin(own, seen)
    rest = ~chosen & ~torch.isin(own, own[fresh])
    if not bool(fresh.any()) or not bool(rest.any()):
        raise DataError(
            f"`data` must hold enough groups to set some apart as a canary and train on the rest, "
            f"got {len(groups.unique())}, of which {len(groups[trained].unique())} were trained on "
            f"and {len(groups[guards].unique())} guard already. Give more, or a canary of your own."
        )
    parts = [each.nonzero().flatten() for each in (rest, fresh)]
    left_out = len(data) - sum(map(len, parts))
    sides = (groups[fresh].unique(), groups[rest].unique())
    return Portions(data.subset(parts[0]), data.subset(parts[1]), left_out, *sides)


# -- recognising examples --------------------------------------------------------------------


def hashes(inputs: Examples) -> Tensor:
    """(examples,) int64: equal for examples of equal bytes, type and shape, else different but for
    one pair in 2^64. Labels do not count: a known input with a new label is known.

    >>> same = hashes(torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]))
    >>> bool(same[0] == same[2]), bool(same[0] == same[1])
    (True, False)
    """
    if isinstance(inputs, Fields):
        own = as_buffers("", inputs)
        inputs = torch.stack([hashes(own[name]) for name in sorted(own)], dim=1)
    kind = f"{inputs.dtype} {tuple(inputs.shape[1:])}".encode()
    # adding zero turns -0.0 into 0.0, which equals it
    rows = (inputs.detach().cpu() + 0).contiguous().reshape(len(inputs), -1)
    every = rows.view(torch.uint8).numpy() if rows.numel() else rows.numpy()
    found = [blake2b(row.tobytes(), digest_size=8, key=kind[:64]).digest() for row in every]
    return torch.tensor([int.from_bytes(h, "big", signed=True) for h in found], dtype=torch.int64)


def hashes_of_words(words: Sequence[str]) -> Tensor:
    """(words,) int64: equal for equal words."""
    found = [blake2b(str(word).encode(errors="replace"), digest_size=8).digest() for word in words]
    return torch.tensor([int.from_bytes(h, "big", signed=True) for h in found], dtype=torch.int64)


def fingerprint(data: Data) -> str:
    """32 hexadecimal digits of all examples with their targets, in order."""
    whole = _whole(data)
    total = blake2b(digest_size=16)
    total.update(hashes(whole.inputs).numpy().tobytes())
    total.update(whole.targets.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def refuse_overlap(asked: Tensor, others: Tensor, what: str) -> None:
    """Refuse to train on examples of a canary, or to guard by examples that were trained on: hashes
    of those `asked` for that are among the `others`; `what` says what they are."""
    shared = torch.isin(asked, others)
    if bool(shared.any()):
        rows = shared.nonzero().flatten().tolist()
        first = ", ".join(map(str, rows[:3])) + (", ..." if len(rows) > 3 else "")
        raise DataError(
            f"{len(rows)} of the {len(asked)} {what} (rows {first}). A canary that was trained on "
            "notices nothing: leave these rows out."
        )


def _whole(data: Data) -> Batch:
    """All examples as one batch."""
    return data.batch(torch.arange(len(data)))


def _joined(first: Data | None, second: Data | None) -> Data | None:
    """Both canaries as one."""
    if first is None or second is None:
        return second if first is None else first
    one, other = _whole(first), _whole(second)
    inputs, targets = torch.cat([one.inputs, other.inputs]), torch.cat([one.targets, other.targets])
    return Data(inputs, targets, task=first.task)
