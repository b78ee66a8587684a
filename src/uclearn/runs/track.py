"""Runs shown elsewhere while they grow: TensorBoard, MLflow, Weights & Biases, Aim.

A tracker is told the same events as the screen, in the process that started the runs, wherever
these are made. A package that fails is named once and left; the runs go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from uclearn.choices import check_choice
from uclearn.errors import SettingError
from uclearn.runs.config import Configuration
from uclearn.runs.grid import GridObserver
from uclearn.runs.tensorboard import Told, told_by


class Tracked(Protocol):
    """One run, as a package shows it."""

    def log(self, told: Told) -> None:
        """Numbers by name, at a step."""

    def end(self, state: str) -> None:
        """The run was made, or not."""


class _TensorBoard:
    def __init__(self, config: Configuration, out: Path) -> None:
        tensorboard = _imported("torch.utils.tensorboard", "tensorboard")
        self.writer = tensorboard.SummaryWriter(str(out / "tensorboard" / config.folder_name()))

    def log(self, told: Told) -> None:
        for name, value in told.values.items():
            self.writer.add_scalar(name, value, told.step)
        self.writer.flush()

    def end(self, state: str) -> None:
        self.writer.close()


class _MLflow:
    """Where MLFLOW_TRACKING_URI says; the benchmark is the experiment."""

    def __init__(self, config: Configuration, out: Path) -> None:
        self.client = _imported("mlflow", "mlflow").MlflowClient()
        known = self.client.get_experiment_by_name(config.benchmark)
        made = known.experiment_id if known else self.client.create_experiment(config.benchmark)
        name = config.folder_name().partition("/")[2]
        self.run = self.client.create_run(made, run_name=name).info.run_id
        for key, value in _settings(config).items():
            self.client.log_param(self.run, key, value)

    def log(self, told: Told) -> None:
        for name, value in told.values.items():
            self.client.log_metric(self.run, name, value, step=told.step)

    def end(self, state: str) -> None:
        self.client.set_terminated(self.run, "FINISHED" if state == "made" else "FAILED")


class _Wandb:
    """As WANDB_MODE says; the benchmark is the group."""

    def __init__(self, config: Configuration, out: Path) -> None:
        self.run = _imported("wandb", "wandb").init(
            project="uclearn",
            group=config.benchmark,
            name=config.folder_name().partition("/")[2],
            config=config.document(),
            dir=str(out),
            reinit="create_new",
        )
        self.axes: set[str] = set()

    def log(self, told: Told) -> None:
        for name in told.values.keys() - self.axes:
            self.run.define_metric(name, step_metric=told.axis)
            self.axes.add(name)
        self.run.log({**told.values, told.axis: told.step})

    def end(self, state: str) -> None:
        self.run.finish(exit_code=0 if state == "made" else 1)


class _Aim:
    """Beside the runs: `aim up --repo OUT`."""

    def __init__(self, config: Configuration, out: Path) -> None:
        self.run = _imported("aim", "aim").Run(
            experiment=config.benchmark,
            repo=str(out),
            system_tracking_interval=None,
            capture_terminal_logs=False,
        )
        self.run.name = config.folder_name().partition("/")[2]
        self.run["config"] = config.document()

    def log(self, told: Told) -> None:
        for name, value in told.values.items():
            self.run.track(value, name=name, step=told.step)

    def end(self, state: str) -> None:
        self.run.close()


TRACKERS: dict[str, Callable[[Configuration, Path], Tracked]] = {
    "tensorboard": _TensorBoard,
    "mlflow": _MLflow,
    "wandb": _Wandb,
    "aim": _Aim,
}


@contextmanager
def tracking(
    names: str | None, out: Path, problem: Callable[[str], None]
) -> Iterator[GridObserver]:
    """An observer for `run_all` that passes numbers on to the trackers called `names`, with commas
    (None: to nobody); `problem` is told, once, what one of them cannot do."""
    chosen = [] if names is None else [name.strip() for name in names.split(",")]
    _check_installed(chosen)
    tracks = [_Track(name, out, problem) for name in chosen]

    def observe(config: Configuration, event: str, details: dict[str, Any]) -> None:
        for track in tracks:
            track.observe(config, event, details)

    try:
        yield observe
    finally:
        for track in tracks:
            track.close()


class _Track:
    def __init__(self, name: str, out: Path, problem: Callable[[str], None]) -> None:
        self.name, self.out, self.problem = name, out, problem
        self.runs: dict[str, Tracked] = {}
        self.failed = False

    def observe(self, config: Configuration, event: str, details: dict[str, Any]) -> None:
        if self.failed:
            return
        try:
            self._pass_on(config, event, details)
        except Exception as error:  # whatever goes wrong in a tracker, the runs go on
            self.failed = True
            self.problem(f"{self.name} tracks no more: {type(error).__name__}: {error}")

    def _pass_on(self, config: Configuration, event: str, details: dict[str, Any]) -> None:
        key = config.fingerprint()
        if event == "run_ends":
            if (ended := self.runs.pop(key, None)) is not None:
                ended.end(details["state"])
            return
        epochs = details.get("task", 0) * config.document()["plan"].get("epochs", 0)
        told = told_by(event, details, epochs + details.get("epoch", 0))
        if told is None and event != "run_begins":
            return
        if key not in self.runs:
            self.runs[key] = TRACKERS[self.name](config, self.out)
        if told is not None:
            self.runs[key].log(told)

    def close(self) -> None:
        for run in self.runs.values():
            run.end("stopped")


def _check_installed(names: Sequence[str]) -> None:
    """Refuse a tracker whose package is absent, before anything is made."""
    modules = {"tensorboard": "torch.utils.tensorboard"}
    for name in names:
        check_choice("--track", name, TRACKERS)
        _imported(modules.get(name, name), name)


def _imported(module: str, name: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        extra = "aim" if name == "aim" else "'uclearn[track]'"
        raise SettingError(
            f"`--track {name}` needs a package that is not installed ({error.name}): pip install "
            f"{extra}."
        ) from error


def _settings(config: Configuration) -> dict[str, str]:
    """Every setting on one level, short enough for a database."""
    found: dict[str, str] = {}

    def walk(value: Any, place: str) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                walk(each, f"{place}.{key}" if place else key)
        elif value is not None and value != []:
            found[place] = str(value)[:250]

    walk({k: v for k, v in config.document().items() if k != "changed"}, "")
    return found
