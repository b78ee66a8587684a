"""Inputs of several parts, through everything that handles examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import uclearn
from uclearn.errors import DataError
from uclearn.fields import Fields, as_buffers, from_buffers
from uclearn.live.suggest import suggest
from uclearn.methods.replay import WithReplay
from uclearn.networks import MultiHead, answer, run
from uclearn.tasks import Data, FromLoader, iterate, join, stored
from uclearn.training.plan import Plan

PLAN = Plan(epochs=6, batch_size=16, lr=0.02)


class Answer:
    """As transformers have it."""

    def __init__(self, logits: Tensor) -> None:
        self.loss, self.logits = None, logits


class Named(nn.Module):
    """Takes two inputs by name alone, and puts out an object."""

    def __init__(self, per_word: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(12, 8)
        self.inner, self.last = nn.Linear(8, 8), nn.Linear(8, 3)
        self.per_word = per_word

    def forward(self, *, ids: Tensor, mask: Tensor) -> Answer:
        inner = torch.relu(self.inner(self.words(ids))) * mask.unsqueeze(-1)
        return Answer(self.last(inner if self.per_word else inner.sum(1)))


class Trunk(nn.Module):
    """The same without its last layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.inner = nn.Embedding(12, 8), nn.Linear(8, 8)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        inner: Tensor = (torch.relu(self.inner(self.words(ids))) * mask.unsqueeze(-1)).sum(1)
        return inner


def batch(seed: int, count: int = 90) -> dict[str, Tensor]:
    """All words but one are masked; the label is that word, by fours."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 12, (count, 4), generator=generator)
    place = torch.randint(0, 4, (count, 1), generator=generator)
    mask = torch.zeros(count, 4).scatter_(1, place, 1.0)
    return {"ids": ids, "mask": mask, "labels": ids.gather(1, place)[:, 0] // 4}


def inputs(seed: int, count: int = 90) -> dict[str, Tensor]:
    return {name: part for name, part in batch(seed, count).items() if name != "labels"}


def test_fields_are_cut_joined_and_kept_as_a_tensor_would_be() -> None:
    fields: Any = Fields(inputs(0))
    rows = torch.tensor([5, 2, 2])
    for name in ("ids", "mask"):
        whole = fields[name]
        assert torch.equal(fields[rows][name], whole[rows])
        assert torch.equal(fields.index_select(0, rows)[name], whole[rows])
        joined: Any = torch.cat([fields[:3], fields[7:]])
        assert torch.equal(joined[name], torch.cat([whole[:3], whole[7:]]))
        again: Any = torch.cat(fields.split(40))
        assert torch.equal(again[name], whole)
        back = from_buffers("kept", as_buffers("kept", fields))
        assert torch.equal(back[name], whole)
    assert len(fields) == 90
    with pytest.raises(DataError, match=r"same number of examples each.*ids: 2, mask: 3"):
        Fields({"ids": torch.zeros(2), "mask": torch.zeros(3)})


def test_data_of_several_parts_shuffle_and_join_without_mixing_examples_up() -> None:
    one, other = (Data(Fields(inputs(seed)), batch(seed)["labels"]) for seed in (0, 1))
    both = join([one, other.subset(torch.arange(10))])
    seen = 0
    for part in iterate(both, 32, torch.Generator().manual_seed(0)):
        ids, mask = part.inputs["ids"], part.inputs["mask"]
        assert torch.equal((ids * mask).sum(1).long() // 4, part.targets)
        seen += len(part.targets)
    assert seen == 100


def test_a_loader_may_yield_dictionaries_with_labels() -> None:
    whole = batch(0)
    pieces = [{k: v[i : i + 30] for k, v in whole.items()} for i in range(0, 90, 30)]
    read = stored(FromLoader(pieces))
    assert torch.equal(read.batch(torch.arange(90)).inputs["ids"], whole["ids"])
    with pytest.raises(DataError, match="must hold `labels` beside the inputs"):
        stored(FromLoader([inputs(0)]))


class Rows(Dataset[Any]):
    """As a user writes one."""

    def __len__(self) -> int:
        return 90

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        return {name: part[row] for name, part in batch(0).items()}


@pytest.mark.parametrize(
    "given",
    [
        lambda: batch(0),
        lambda: (inputs(0), batch(0)["labels"]),
        lambda: Rows(),
        lambda: DataLoader(Rows(), batch_size=20),
        lambda: Data(Fields(inputs(0)), batch(0)["labels"]),
    ],
    ids=["dictionary", "pair", "dataset", "loader", "data"],
)
def test_a_learner_takes_inputs_by_name_in_any_form(given: Any) -> None:
    learner = uclearn.Learner(Named(), "ewc", plan=PLAN)
    learner.learn(given(), name="a")
    said = learner.predict(inputs(0)).labels
    assert float((said == batch(0)["labels"]).float().mean()) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ucl", "ucl+replay", "lwf", "mas", "ewc+coreset"])
def test_a_learner_keeps_guards_and_saves_what_it_learns_by_name(
    method: str, tmp_path: Path
) -> None:
    own: Any = {"size": 20} if "+" in method else {}
    learner = uclearn.Learner(Named(), method, plan=PLAN, **own)
    gate = uclearn.Gate(canary=30, max_drop=0.5)
    learner.learn(batch(0), name="a", gate=gate)
    update = learner.learn(batch(1), name="b", gate=gate)
    assert update.decision == "accepted"
    assert update.compared[0].examples == 30
    learner.save(tmp_path)
    again = uclearn.Learner.load(tmp_path, Named())
    one, other = (each.predict(inputs(5), uncertainty=True) for each in (learner, again))
    assert torch.equal(one.outputs, other.outputs)
    again.learn(batch(2), name="c", gate=gate)  # its memory and its canaries came along
    with pytest.raises(DataError, match="training examples are also in the canary"):
        again.learn(batch(0), name="d")


@pytest.mark.slow
def test_heads_stand_on_a_trunk_that_takes_names_and_are_exported(tmp_path: Path) -> None:
    learner = uclearn.Learner(MultiHead(Trunk(), 8), "ucl", plan=PLAN)
    for seed, name in enumerate("ab"):
        learner.learn(batch(seed), name=name)
    assert set(learner.predict(inputs(3)).tasks) <= {"a", "b"}
    for end in (".pt2", ".onnx"):
        exported = learner.export(tmp_path / f"model{end}")
        assert exported.difference < 1e-5
        assert exported.network(**inputs(3)).shape == (90, 6)
    learner.widen(1.5)
    wide = learner.predict(inputs(3), task="a").outputs
    assert torch.allclose(wide, exported.network(**inputs(3))[:, :3].softmax(1), atol=1e-5)


def texts(seed: int) -> tuple[dict[str, Tensor], Tensor]:
    """Each word has a label."""
    ids = batch(seed)["ids"]
    return {"ids": ids, "mask": torch.ones(ids.shape)}, ids // 4


def test_every_place_of_a_text_is_an_answer() -> None:
    """Classes are last in `.logits` and second for losses; padding is nobody's answer."""
    words, labels = texts(0)
    labels[:, 3] = -100
    learner = uclearn.Learner(Named(per_word=True), "ucl", plan=PLAN)
    gate = uclearn.Gate(canary=20)
    learner.learn((words, labels), name="a", gate=gate)
    update = learner.learn(texts(1), name="b", gate=gate)
    assert update.compared[0].examples == 20  # texts, of which each word is an answer:
    assert update.compared[0].changes.answers == 20 * 3
    assert update.compared[0].before > 0.9
    said = learner.predict(texts(2)[0])
    assert said.labels.shape == said.entropy.shape == (90, 4)
    with pytest.raises(DataError, match=r"one for each place of the network's outputs \(4,\)"):
        learner.learn((texts(1)[0], texts(1)[1][:, :2]), name="c")


def test_classes_are_second_behind_logits() -> None:
    made = torch.randn(2, 5, 3)
    assert torch.equal(answer(Answer(made)), made.movedim(-1, 1))
    assert torch.equal(answer(made), made)  # a plain tensor is its author's affair
    assert run(Named(per_word=True), inputs(0)).shape == (90, 3, 4)


def test_memories_of_other_parts_are_refused() -> None:
    method = WithReplay(uclearn.Method(Named()), size=5)
    method.memory.remember(Data(Fields(inputs(0)), batch(0)["labels"]))
    with pytest.raises(DataError, match="The memory holds inputs:ids, inputs:mask, got inputs"):
        method.memory.remember(Data(torch.zeros(400, 2), torch.zeros(400).long()))


@pytest.mark.slow
def test_settings_are_suggested_for_inputs_by_name() -> None:
    found = suggest(
        Named(),
        [batch(0), batch(1)],
        "ewc",
        runs=3,
        choices={"strength": (1.0, 10.0)},
        plan=Plan(epochs=1, batch_size=32, lr=0.01),
    )
    assert found.runs == 3
