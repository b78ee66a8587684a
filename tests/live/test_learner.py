"""A learner learns whole updates or none, says what became of them, and answers without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tests.live.months import PLAN, accuracy, learner, month, same, state
from uclearn import UCL
from uclearn.errors import SettingError, TaskError
from uclearn.live.gate import Gate
from uclearn.live.learner import Learner
from uclearn.methods.registry import METHODS, build
from uclearn.networks import MultiHead, mlp
from uclearn.tasks import Data, Task, TaskSequence
from uclearn.training import Plan, learn


def test_it_learns_as_the_training_session_does() -> None:
    """The same order of the same words: the weights are those of `uclearn.training.learn`."""
    ours = learner("ucl", beta=0.01)
    data = [Data(*month(k), task=k) for k in range(2)]
    method = build("ucl", mlp(4, (12,), None), data[0].inputs[:1], {"ucl": {"beta": 0.01}})
    tasks = [Task(str(k), k, d, test=d, classes=2) for k, d in enumerate(data)]
    learn(method, TaskSequence("months", tasks, heads=True), PLAN)
    for k in range(2):
        ours.learn(month(k), str(k))
    assert same(state(ours), dict(method.state_dict()))


def test_each_update_adds_a_head_and_old_heads_answer_as_before() -> None:
    ours = learner("ucl")
    ours.learn(month(0), "january")
    ours.learn(month(1), "february")
    for k, name in enumerate(["january", "february"]):
        x, y = month(k)
        assert accuracy(ours, x, y, name) > 0.95
    assert [known.index for known in ours.tasks.values()] == [0, 1]


def test_a_known_task_goes_on_in_its_own_head() -> None:
    ours = learner()
    ours.learn(month(0), "january")
    update = ours.learn(month(2), "january again", task="january")
    assert (update.task, update.index, update.name) == ("january", 0, "january again")
    assert list(ours.tasks) == ["january"]
    assert len(ours.method.model.heads) == 1  # type: ignore[arg-type]
    assert len(ours.tasks["january"].seen) == 240


def test_batch_norm_statistics_of_a_task_that_goes_on_replace_its_own() -> None:
    trunk = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    ours = Learner(trunk, "ucl", plan=PLAN, batch_norm="per-task")
    for name, task in (("a", None), ("b", None), ("more of a", "a")):
        ours.learn(month(0 if name == "a" else 2), name, task=task)
    assert isinstance(ours.method, UCL)
    assert len(ours.method.statistics.per_task) == 2
    x, y = month(0)
    assert accuracy(ours, x, y, "a") > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        month(0),
        tuple(t.numpy() for t in month(0)),
        TensorDataset(*month(0)),
        DataLoader(TensorDataset(*month(0)), batch_size=7),
        Data(*month(0)),
        Data(
            torch.cat([month(0)[0], month(1)[0]]), torch.cat([month(0)[1]] * 2), torch.arange(120)
        ),
    ],
    ids=["tensors", "arrays", "dataset", "loader", "data", "part of data"],
)
def test_all_kinds_of_data_teach_the_same(data: object) -> None:
    ours, plain = learner("ewc"), learner("ewc")
    update = ours.learn(data, "january")
    assert update.fingerprint == plain.learn(month(0), "january").fingerprint
    assert same(state(ours), state(plain))


def test_the_fingerprint_depends_on_every_number() -> None:
    x, y = month(0)
    found = {learner().learn((x, y), "a").fingerprint}
    changed = x.clone()
    changed[3, 2] += 1e-6
    found.add(learner().learn((changed, y), "a").fingerprint)
    found.add(learner().learn((x, y.roll(1)), "a").fingerprint)
    assert len(found) == 3


def test_numbers_can_be_learned_too() -> None:
    x = month(0)[0]
    ours = Learner(mlp(4, (16,), 1), "ucl", plan=Plan(epochs=40, batch_size=24, lr=0.03))
    ours.learn((x, 2 * x[:, :1]), "january")
    answer = ours.predict(x, uncertainty=True)
    assert answer.disagreement is not None
    with pytest.raises(TaskError, match="This task has no classes, so there are no labels"):
        _ = answer.labels
    assert (answer.outputs - 2 * x[:, :1]).square().mean() < 0.2
    assert answer.disagreement.shape == (120, 1)


def test_sequences_can_be_learned_of_any_length_the_network_takes() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(20, 8), nn.Linear(8, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            output: Tensor = self.out(self.table(tokens).mean(dim=1))
            return output

    stream = torch.Generator().manual_seed(0)
    long = torch.randint(20, (200, 9), generator=stream)
    short = torch.randint(20, (200, 5), generator=stream)
    ours = Learner(Words(), "finetuning", plan=Plan(epochs=20, batch_size=20, lr=0.03))
    for name, tokens in (("nine", long), ("five", short)):
        ours.learn((tokens, (tokens.float().mean(1) > 9.5).long()), name)
    assert accuracy(ours, short, (short.float().mean(1) > 9.5).long()) > 0.95


def test_settings_go_to_the_part_that_takes_them() -> None:
    ours = learner("ucl+replay", beta=0.5, size=30)
    ours.learn(month(0), "january")
    assert ours.method.method.beta == 0.5  # type: ignore[union-attr]
    assert ours.method.memory.size == 30
    with pytest.raises(
        SettingError, match=r"There is no setting of ucl 'betta'. Did you mean 'beta'"
    ):
        learner("ucl", betta=0.5, example=torch.zeros(1, 4))


def test_names_are_asked_for_clearly() -> None:
    ours = learner()
    with pytest.raises(TaskError, match=r"learned nothing yet. Call `learn` first"):
        ours.predict(month(0)[0])
    with pytest.raises(TaskError, match="The method is built when the first data come"):
        _ = ours.method
    ours.learn(month(0), "january")
    with pytest.raises(TaskError, match=r"There is a task 'january' already. .*`task='january'`"):
        ours.learn(month(1), "january")
    with pytest.raises(TaskError, match=r"There is no task 'june'. Known: january."):
        ours.predict(month(0)[0], task="june")


def test_what_makes_no_sense_is_refused() -> None:
    network = mlp(4, (8,), None)
    assert isinstance(network, MultiHead)
    network.add_head(2)
    with pytest.raises(
        SettingError, match=r"`model` must have no heads yet, got 1: each task adds"
    ):
        Learner(network)
    ours = learner()
    ours.learn(month(0), "january")
    with pytest.raises(SettingError, match=r"`draws` must be at least 2 to disagree, got 1."):
        ours.predict(month(0)[0], uncertainty=True, draws=1)


def test_capacity_grows_with_what_was_kept_alone() -> None:
    ours = learner("ucl", lr_sigma=0.05)
    for k in range(3):
        ours.learn(month(k), str(k))
    shares = ours.capacity().network.shares
    assert len(shares) == 3
    assert shares[-1] > 0
    gate = Gate(max_drop=0.0, rule="possible", canary={str(k): month(10 + k) for k in range(3)})
    assert ours.learn(month(3), "rejected", gate=gate).decision == "rejected"
    assert ours.capacity().network.shares == shares


def test_a_widened_learner_answers_the_same_and_goes_on() -> None:
    ours = learner("ucl")
    ours.learn(month(0), "january")
    x = month(5)[0]
    before = ours.predict(x).probabilities
    ours.widen(2.0)
    after = ours.predict(x).probabilities
    torch.testing.assert_close(before, after)
    assert ours.journal[-1]["event"] == "widened"
    assert ours.journal[-1]["widths"]["trunk.0"] == 24
    ours.learn(month(1), "february")
    assert accuracy(ours, *month(1), "february") > 0.95


def test_an_exported_network_answers_as_the_learner_does() -> None:
    ours = learner("ucl")
    for k, name in enumerate(["january", "february"]):
        ours.learn(month(k), name, gate=Gate(canary=40, max_drop=0.9))
    x = month(5)[0]
    exported = ours.export(task="february", prune=0.02)
    assert exported.parameters_after < exported.parameters_before
    plain = ours.export(task="february").network
    expected = ours.predict(x, task="february").probabilities
    torch.testing.assert_close(plain(x).softmax(1), expected)
    assert ours.export().network(x).shape == (120, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name != "hat"])
def test_every_method_serves(name: str) -> None:
    ours = learner(name)
    for k in range(2):
        ours.learn(month(k), str(k))
    x, y = month(1)
    assert accuracy(ours, x, y, "1") > 0.9


def test_a_path_is_learned_and_asked(tmp_path: Path) -> None:
    path = tmp_path / "march.csv"
    rows = [f"{k % 2 * 4 + k / 100},{k % 3},{'worn' if k % 2 else 'ok'}" for k in range(60)]
    path.write_text("\n".join(["heat,noise,label", *rows]))
    learner = Learner(mlp(2, (8,), None), plan=Plan(epochs=10, batch_size=8, lr=0.01))
    learner.learn(path, name="march")
    assert learner.tasks["march"].labels == ("ok", "worn")
    bare = tmp_path / "new.csv"
    bare.write_text("heat,noise\n0.1,1\n4.2,1\n")
    assert learner.predict(bare, task="march").labels.tolist() == [0, 1]
