"""A sequence is learned, judged and resumed; what a task left behind stays as it was."""

from __future__ import annotations

import functools
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.rl.small import SEQUENCE, SPACES, WIDTH, small_method, small_plan
from uclearn.errors import CheckpointError, TaskError
from uclearn.gaussian import GaussianLayer
from uclearn.methods.contract import Method, lent
from uclearn.methods.registry import build
from uclearn.methods.ucl import UCL
from uclearn.rl import environments
from uclearn.rl.policy import ActorCritic, log_probability, view
from uclearn.rl.session import RewardOutcome, StoppedError, learn
from uclearn.rl.tasks import tasks_of, widest
from uclearn.rl.workers import Worker
from uclearn.storage.checkpoint import load_latest
from uclearn.storage.files import read_jsonl
from uclearn.storage.recorder import open_run

pytestmark = pytest.mark.rl

Events = list[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[RewardOutcome, Events, list[Any]]:
    """One calm session, and the checkpoints on its way."""
    folder = tmp_path_factory.mktemp("story")
    told: Events = []
    states: list[Any] = []

    def observe(event: str, details: dict[str, Any]) -> None:
        told.append((event, details))
        if event == "saved":
            states.append(load_latest(folder, "reinforcement learning")[0])

    method = small_method("ewc")
    outcome = learn(method, SEQUENCE, small_plan(), folder=folder, observer=observe)
    return outcome, told, states


def test_every_task_seen_so_far_is_judged_all_the_way(
    story: tuple[RewardOutcome, Events, list[Any]],
) -> None:
    """6 iterations of 256 steps per task, an evaluation after every 2."""
    outcome, told, _ = story
    found = [(e.task, e.iteration, e.steps) for e in outcome.evaluations]
    assert found == [(t, i, (6 * t + i) * 256) for t in (0, 1) for i in (2, 4, 6)]
    assert [[len(own) for own in e.returns] for e in outcome.evaluations] == [[2]] * 3 + [
        [2, 2]
    ] * 3
    assert [d["means"] for event, d in told if event == "evaluation"] == outcome.curve()


def test_events_in_order(story: tuple[RewardOutcome, Events, list[Any]]) -> None:
    block = ["iteration", "step"] * 2 + ["evaluation", "saved"]
    names = [event for event, _ in story[1]]
    assert names == ["saved", "task", *block * 3] * 2 + ["finished"]
    steps = [details for event, details in story[1] if event == "step"]
    assert [step["progress"] for step in steps] == pytest.approx([i / 12 for i in range(1, 13)])
    assert all(step["steps_per_second"] > 0 for step in steps)


def test_a_task_switch_changes_observations_and_actions(
    story: tuple[RewardOutcome, Events, list[Any]],
) -> None:
    state = story[2][-1]
    heads = {k: v.shape for k, v in state["method"].items() if ".weight" in k and "heads" in k}
    assert heads["model.heads.0.weight"] == (1, 8)
    assert heads["model.heads.1.weight"] == (2, 8)
    seen = [len(n["observations"]["mean"]) for n in state["normalisers"]]
    assert seen == [3, 5]


def test_the_statistics_of_a_task_are_its_own_for_good(
    story: tuple[RewardOutcome, Events, list[Any]],
) -> None:
    """Task 1 ends with the fourth checkpoint; nothing of its statistics changes afterwards."""
    states = story[2]
    finished = flat(states[3]["normalisers"][0])
    assert states[3]["normalisers"][0]["frozen"] is True
    assert states[3]["index"] == 1
    assert finished != flat(states[2]["normalisers"][0])
    for later in states[4:]:
        assert flat(later["normalisers"][0]) == finished
    assert flat(states[-1]["normalisers"][1]) != finished


def flat(normaliser: Any) -> list[Any]:
    parts = [normaliser["observations"], normaliser["returns"]]
    return [v.tolist() if isinstance(v, Tensor) else v for part in parts for v in part.values()]


def test_a_first_task_that_is_no_longer_touched_is_played_the_same() -> None:
    """Where shared weights cannot move and the head is the task's own, fixed seeds, mean weights
    and frozen statistics give the very same returns, whatever is learned next."""
    method = small_method("finetuning")
    for parameter in method.model.trunk.parameters():  # type: ignore[union-attr]
        parameter.requires_grad_(False)
    outcome = learn(method, SEQUENCE, small_plan())
    after = [evaluation.returns[0] for evaluation in outcome.evaluations[2:]]
    assert all(returns == after[0] for returns in after)
    assert after[0] != outcome.evaluations[0].returns[0]


class Unheld(Method):
    """The network of another method, without what holds it."""

    def __init__(self, inner: Method) -> None:
        super().__init__(inner.model, copied=True)


@functools.cache
def way_and_penalty(name: str, strength: float | None = None) -> tuple[float, float]:
    """How far the actor's shared weights go while the second task is learned, and the penalty when
    they have got there. Without a strength: the same network, held by nothing."""
    changes: dict[str, Any] = {} if strength is None else {_STRENGTHS[name]: strength}
    method = small_method(name, **changes)
    method = method if changes else Unheld(method)
    begin: list[Tensor] = []
    end: list[Tensor] = []
    penalty = []

    def observe(event: str, details: dict[str, Any]) -> None:
        if event == "task" and details["task"] == 1:
            begin.extend(p.detach().clone() for p in actor(method))
        if event == "iteration" and (details["task"], details["iteration"]) == (1, 6):
            end.extend(p.detach().clone() for p in actor(method))
            penalty.append(float(method.penalty(batch_size=64).detach()))

    learn(method, SEQUENCE, small_plan(lr=3e-3), observer=observe)
    squares = [(b - a).square().sum() for a, b in zip(begin, end, strict=True)]
    return float(torch.stack(squares).sum().sqrt()), penalty[0]


_STRENGTHS = {"ewc": "strength", "si": "strength", "mas": "strength", "ucl": "lr_sigma"}


def actor(method: Method) -> list[nn.Parameter]:
    named = method.model.named_parameters()
    return [p for name, p in named if name.startswith("trunk.actor") and "rho" not in name]


@pytest.mark.parametrize(
    ("name", "strength"), [("ewc", 3000.0), ("si", 3000.0), ("mas", 300.0), ("ucl", 0.2)]
)
def test_methods_hold_the_actor_where_the_first_task_left_it(name: str, strength: float) -> None:
    """While the second task is learned the penalty is not zero, and the actor's trunk moves less
    than the same network without it (UCL's with the same noise)."""
    way, penalty = way_and_penalty(name, strength)
    free, nothing = way_and_penalty("ucl" if name == "ucl" else "finetuning")
    assert penalty > 0
    assert nothing == 0
    assert way < 0.7 * free


def test_stopped_politely_and_resumed_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    calm = small_method("ucl")
    with open_run(tmp_path / "calm", {}, "test") as run:
        expected = learn(calm, SEQUENCE, small_plan(), folder=run.folder, journal=run)
    stops = {(0, 4): signal.SIGINT, (1, 3): signal.SIGTERM}

    def observe(event: str, details: dict[str, Any]) -> None:
        place = (details.get("task", -1), details.get("iteration", -1))
        if event == "iteration" and place in stops:
            signal.raise_signal(stops.pop(place))

    stopped = []
    for _ in range(9):
        method = small_method("ucl")
        with open_run(tmp_path / "stopped", {}, "test") as run:
            try:
                found = learn(
                    method,
                    SEQUENCE,
                    small_plan(),
                    folder=run.folder,
                    journal=run,
                    observer=observe,
                )
                break
            except StoppedError as error:
                stopped.append(str(error))
    assert [text.split("repeat: ")[1].split(",")[0] for text in stopped] == ["0", "1"]
    assert found.evaluations == expected.evaluations
    recorded = [read_jsonl(tmp_path / part / "events.jsonl") for part in ("calm", "stopped")]
    assert recorded[0] == recorded[1]
    assert method.state_dict().keys() == calm.state_dict().keys()
    for key, value in calm.state_dict().items():
        assert torch.equal(value, method.state_dict()[key]), key


def test_seeds_change_everything_and_the_number_of_workers_nothing() -> None:
    changes: list[dict[str, Any]] = [{"workers": 1}, {"workers": 2}, {"seed": 1}]
    one, two, other = (
        learn(small_method("finetuning"), SEQUENCE[:1], small_plan(steps_per_task=512, **change))
        for change in changes
    )
    assert one.evaluations == two.evaluations
    assert one.evaluations[0].returns != other.evaluations[0].returns


def test_a_checkpoint_of_another_session_is_refused(tmp_path: Path) -> None:
    plan = small_plan(steps_per_task=256, renew_every=1)
    learn(small_method("finetuning"), SEQUENCE[:1], plan, folder=tmp_path)
    with pytest.raises(CheckpointError, match=r"another session: it differs in gamma\. Choose"):
        learn(small_method("finetuning"), SEQUENCE[:1], replace(plan, gamma=0.9), folder=tmp_path)


def test_a_network_that_does_not_fit_is_refused() -> None:
    narrow = build("finetuning", ActorCritic(3), None)
    with pytest.raises(TaskError, match=r"`width` must be at least 5, .* widest task, got 3"):
        learn(narrow, SEQUENCE, small_plan())
    other = build("finetuning", nn.Linear(5, 2), None)
    with pytest.raises(TaskError, match=r"built around an ActorCritic, got one around a Linear"):
        learn(other, SEQUENCE, small_plan())


def test_each_environment_is_surveyed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whoever asks first: a command that checks its choice, the policy's width, or learning."""
    surveyed: list[str] = []

    class Counted(Worker):
        def __init__(self, name: str, first: int, count: int) -> None:
            super().__init__(name, first, count)
            if count == 1:  # learning steps 8 of them, evaluation 2
                surveyed.append(name)

    monkeypatch.setattr(environments, "_SURVEYED", {})
    monkeypatch.setattr(environments, "Worker", Counted)
    assert environments.survey([*SEQUENCE, SEQUENCE[0]]).keys() == set(SEQUENCE)
    assert widest(SEQUENCE) == WIDTH
    learn(small_method("finetuning"), SEQUENCE, small_plan(steps_per_task=256))
    assert surveyed == list(SEQUENCE)


def test_by_rule_actors_are_held_by_what_their_actions_hang_on_and_critics_are_not() -> None:
    """Against the Fisher information of the policy, example by example, from autograd alone."""
    method = small_method("ucl", begun=1, sigma="auto", beta="auto", sampling="local")
    assert isinstance(method, UCL)
    task = tasks_of(SEQUENCE, SPACES)[0]
    method.model.get_parameter("heads.0.weight").data.mul_(100)  # at first nothing hangs on it
    torch.manual_seed(0)
    observations = torch.randn(24, WIDTH)
    mean, log_std, _ = view(method.model(observations, task=0))
    actions = (mean + log_std.exp() * torch.randn_like(mean)).detach()
    method.penalty(batch_size=16)

    def losses() -> list[Tensor]:
        mean, log_std, _ = view(method.model(observations, task=0))
        return [-log_probability(mean, log_std, actions)]

    curvature = {
        name: torch.zeros_like(layer.rho)
        for name, layer in method.model.named_modules()
        if isinstance(layer, GaussianLayer)
    }
    with lent(method.model):
        for loss in losses()[0]:
            for name, own in curvature.items():
                weight = method.model.get_parameter(f"{name}.weight")
                (slope,) = torch.autograd.grad(loss, weight, retain_graph=True, allow_unused=True)
                if slope is not None:
                    own += slope.square().sum(1) / 24
    starts = {name: float(sigma[0]) for name, sigma in method.sigmas().items()}
    for name in curvature:  # what sigma learned by advantages and values does not count
        method.model.get_parameter(f"{name}.rho").data.sub_(2.0)
    method.end_task(task, losses, inputs=[observations])
    for name, strength in method.strengths().items():
        gained = 0.3 * starts[name] ** 2 * 16 * curvature[name] / (2 * method.beta)
        gained *= min(1.0, 1 / max(float(gained.mean()), 1e-9))
        torch.testing.assert_close(strength.square(), 1 + gained, rtol=1e-3, atol=1e-4)
        assert bool((strength > 1.1).any()) == ("actor" in name)
