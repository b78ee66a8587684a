"""Supervised learning as a kind of run: its configuration, and the presets its values come from.

`default` takes the settings of methods by rule, the same everywhere, as somebody would who tunes
nothing. `paper` follows the paper to the letter, and its authors' program where the paper is
silent. `best` starts from there and takes what we found to be better. What neither the paper nor
the program has (the digits; MAS, RWalk, LwF, joint training, replay) is ours in both, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, field_validator
from pydantic import model_validator as after_validation

from uclearn.choices import check_choice
from uclearn.errors import SettingError
from uclearn.methods.registry import facts, parts
from uclearn.paper import settings as published
from uclearn.paper.settings import (
    BEST,
    BEST_PLAN,
    OURS,
    TABLE,
    TUNED,
    UNSOUGHT,
    Values,
    for_digits,
    of,
)
from uclearn.runs.config import (
    Configuration,
    Document,
    Kind,
    Settings,
    announced,
    check_preset,
    settings_of,
    validated,
)
from uclearn.runs.estimate import supervised_seconds
from uclearn.runs.prepare import PICTURE_NETWORKS, learn_tasks
from uclearn.tasks.benchmarks import BENCHMARKS, Benchmark, Named, absent_data, benchmark
from uclearn.tasks.own.source import Source
from uclearn.training.begin import check_told
from uclearn.training.plan import Plan

PLAN_SETTINGS = settings_of(Plan, "seed", "checkpoint_seconds")


class NetworkSettings(Settings):
    """The network, as far as the benchmark leaves a choice (`uclearn.runs.prepare`)."""

    kind: str = "mlp"
    """mlp, conv, resnet, or `module:function` of one's own."""
    hidden: tuple[int, ...] = ()
    """Width of each hidden layer; empty for the convolutional networks, which are fixed."""
    dropout: float = 0.0
    """After each hidden layer."""
    input_dropout: float = 0.0
    start: Literal["he", "torch"] = "he"
    """How weights are drawn: as He does, or as torch does by itself. A network of one's own draws
    its own."""


class DataSettings(Settings):
    """The data, as far as the benchmark leaves a choice."""

    split_after_augmentation: bool = False
    """Omniglot only: split as the authors did, copies of one drawing standing on both sides."""
    copies: int | None = Field(default=None, ge=0)
    """Omniglot only: how many turned and shifted copies a drawing has; None: the paper's 20."""
    judge: Literal["test", "validation"] = "test"
    """What accuracies are measured on. Tuning must not look at the test data."""


class RunConfig(Configuration):
    """One run of supervised learning: a benchmark, a method, a seed, and every setting.

    >>> from uclearn.runs import resolve
    >>> config = resolve("permuted-mnist", "ucl", preset="paper")
    >>> config.setting("ucl", "beta"), config.make_plan().epochs
    (0.03, 100)
    >>> RunConfig.from_json(config.to_json()) == config
    True
    """

    network: NetworkSettings = NetworkSettings()
    data: DataSettings = DataSettings()
    source: Source | None = None
    """Of data of one's own; None: the benchmark is one that everybody knows."""

    @field_validator("plan", mode="before")
    @classmethod
    def _typed_plan(cls, value: object) -> Settings:
        return validated(PLAN_SETTINGS, value, "plan")

    @after_validation(mode="after")
    def _makes_sense(self) -> Self:
        described = self.described()
        if described.name != self.benchmark:
            raise SettingError(
                f"`benchmark` must be {described.name}, as its `source` says, got {self.benchmark}."
            )
        _check_tasks(described, self.tasks)
        check_network(described, self.network)
        _check_plan(self.make_plan())
        for part in parts(self.method):
            check_told(part, facts(part), described.grows)
        self.check_method()
        return self

    def described(self) -> Benchmark:
        """What is learned."""
        return benchmark(self.benchmark) if self.source is None else self.source.benchmark()

    def document(self) -> dict[str, Any]:
        """As it stands in config.json; only data of one's own have a source."""
        document = super().document()
        if self.source is None:
            del document["source"]
        else:
            document["source"] = self.source.document()
        return document

    def content(self) -> dict[str, Any]:
        """What its fingerprint stands for: wherever the data lie."""
        content = super().content()
        if self.source is not None:
            said = {**content["source"]["asked"], "path": ""}
            content["source"] = {**content["source"], "asked": said}
        return content

    def kind_of_run(self) -> Kind[RunConfig]:
        """Supervised learning."""
        return SUPERVISED

    def task_count(self) -> int:
        """How many tasks are learned."""
        return self.tasks or self.described().tasks

    def share_done(self, step: Mapping[str, Any]) -> float:
        """How much of the run is over at a `step` event, 0 to 1."""
        within = step["epoch"] + step["batch"] / step["batches"]
        return float((step["task"] + within / self.make_plan().epochs) / self.task_count())

    def news(self, event: str, details: Mapping[str, Any]) -> str:
        """An event in a few words; empty: nothing to tell."""
        if event == "precision":
            return f"computed in {details['precision']}, as plan.precision=auto found best here"
        if event == "step":
            return f"task {details['task'] + 1}/{self.task_count()} loss {details['loss']:.3f}"
        if event == "evaluation":
            seen = details["scores"][: details["task"] + 1]
            learned = f"task {details['task'] + 1}/{self.task_count()}"
            accuracy = sum(seen) / len(seen)
            return learned if math.isnan(accuracy) else f"{learned}, accuracy {accuracy:.3f}"
        return ""

    def make_plan(self, checkpoint_seconds: float = 30.0) -> Plan:
        """The plan, with the run's seed."""
        return Plan(**self.plan.model_dump(), seed=self.seed, checkpoint_seconds=checkpoint_seconds)


def check_network(name: Named, settings: NetworkSettings) -> None:
    """Refuse what the benchmark's network cannot be."""
    for key in ("dropout", "input_dropout"):
        share = getattr(settings, key)
        if not 0 <= share < 1:
            raise SettingError(
                f"`network.{key}` must be 0 or greater and less than 1, got {share}. It is the "
                "share of values that are set to 0 while training."
            )
    described = benchmark(name)
    if described.network is not None:
        if settings != NetworkSettings(start=settings.start):
            paper = "the convolutional one of the paper's supplement"
            which = paper if described.name in BENCHMARKS.ours else "its own"
            raise SettingError(
                f"`network` must be left as it is for {described.name}, got {settings}. Its "
                f"network is {which}."
            )
    elif settings.kind != "mlp":
        _check_kind(described, settings)
    elif not settings.hidden or min(settings.hidden) < 1:
        raise SettingError(
            f"`network.hidden` must hold the width of at least one hidden layer, each at least 1, "
            f"got {list(settings.hidden)}."
        )


def _check_kind(described: Benchmark, settings: NetworkSettings) -> None:
    kind, shape = settings.kind, described.input_shape
    if settings != NetworkSettings(kind=kind, start=settings.start):
        raise SettingError(
            f"`network` must have neither widths nor dropout where it is {kind}, got {settings}."
        )
    if ":" not in kind:
        check_choice("network.kind", kind, ("mlp", *PICTURE_NETWORKS), " Or module:function.")
        if len(shape) != 3:
            raise SettingError(
                f"`network.kind` must be mlp for {described.name}, got {kind}. Its examples are "
                f"no pictures, but of shape {shape}."
            )


def _check_tasks(chosen: Benchmark, tasks: int | None) -> None:
    if tasks is None or (tasks >= 1 and (chosen.free or tasks <= chosen.tasks)):
        return
    bound = "be at least 1" if chosen.free else f"lie between 1 and {chosen.tasks}"
    raise SettingError(f"`tasks` must {bound} for {chosen.name}, got {tasks}.")


def _check_plan(plan: Plan) -> None:
    if plan.clip_norm is not None and not plan.clip_norm > 0:
        raise SettingError(
            f"`plan.clip_norm` must be greater than 0, got {plan.clip_norm}. It is the largest "
            "norm of the gradient; none leaves gradients as they are."
        )
    # asked here and not of torch: building an optimiser for the first time takes a second
    for key in ("momentum", "weight_decay"):
        if not getattr(plan, key) >= 0:
            raise SettingError(
                f"`plan.{key}` must be 0 or greater, got {getattr(plan, key)}. It is a setting of "
                "the optimiser."
            )


_PUBLISHED = {
    "ucl": published.ucl,
    "ewc": published.ewc,
    "si": published.si,
    "hat": published.hat,
    "vcl": published.vcl,
    "coreset": published.coreset,
    "lwf": published.lwf,
}


def preset(named: Named, method: str, which: str = "default") -> Values:
    """What a preset says, by dotted key, each value with its source.

    Args:
        named: the benchmark, or its name.
        method: such as `ucl` or `vcl+coreset`.
        which: `default`, `best` or `paper`.

    >>> preset("permuted-mnist", "ucl", "paper")["ucl.beta"]
    (0.03, 'paper, supplement 5.1.1')
    """
    check_preset(which)
    chosen = benchmark(named)
    name = chosen.name
    own, *wrappers = parts(method)
    brought = chosen.network is not None and name not in BENCHMARKS.ours
    said: Values = {}
    for part in (own, *wrappers):
        said |= {} if brought else published.NORMLESS.get(part, {})
        said |= {} if chosen.heads else published.HEADLESS.get(part, {})
        said |= announced(part, name)
    if chosen.source is not None:
        return _for_own(chosen.source, own, wrappers, which) | said
    if name not in BENCHMARKS.ours:
        return said | _announced(chosen, (own, *wrappers))
    if which == "default":
        return published.default(name, own, wrappers) | said
    if name not in TABLE:
        return for_digits(name, own, wrappers) | said
    values = published.plan(name, own) | published.network(name, own)
    if which == "best":
        values |= BEST_PLAN
    for part in (own, *wrappers):
        values |= _PUBLISHED[part](name) if part in _PUBLISHED else UNSOUGHT.get(part, {})
        if which == "best":
            values |= BEST.get(part, {}) | TUNED.get((name, part), {})
    if which == "paper" and name == "omniglot":
        values |= of("data", published.PROGRAM, split_after_augmentation=True)
    return values | said


def _announced(chosen: Benchmark, method: Sequence[str]) -> Values:
    """What both presets say about a benchmark of another package: the settings it brings."""
    hidden = {} if chosen.network else of("network", _UNTOLD, hidden=(200, 200))
    told = {key: (value, _ANNOUNCED) for key, value in chosen.settings.items()}
    groups = ("plan", "network", "data", *method)
    return {key: value for key, value in (hidden | told).items() if key.split(".")[0] in groups}


_STEPS, _FEWEST, _MOST = 400, 15, 100
_BATCHES, _SMALLEST = 8, 4
_FEW = f"{OURS}: {_BATCHES} batches in a task of average length, each of at least {2**_SMALLEST}"
_SIZED = f"{OURS}: {_STEPS} steps in a task of average length, {_FEWEST} to {_MOST} epochs"


def _for_own(source: Source, method: str, wrappers: Sequence[str], which: str) -> Values:
    """Data of one's own have only rules."""
    if which != "default":
        raise SettingError(
            f"`preset` must be default for data of one's own, got {which}. The others hold what "
            "was published or found for benchmarks that everybody knows."
        )
    values = published.default(source.name, method, wrappers)
    usual = values["plan.batch_size"][0]
    few = 2 ** max(int(math.log2(max(source.examples // _BATCHES, 1))), _SMALLEST)
    if few < usual:
        values |= of("plan", _FEW, batch_size=few)
    batches = math.ceil(source.examples / values["plan.batch_size"][0])
    epochs = min(max(math.ceil(_STEPS / batches), _FEWEST), _MOST)
    values |= of("plan", _SIZED, epochs=epochs)
    if len(source.input_shape) == 3:
        values |= of("network", f"{OURS}: for pictures", kind="conv", hidden=())
    return values


_ANNOUNCED = "announced with the benchmark"
_UNTOLD = f"{OURS}: for benchmarks that announce no width"


def shrink_epochs(document: Document, scale: float) -> None:
    """Cut everything that counts epochs to the share `scale`, down to one at the least."""
    for settings in (document["plan"], *document["settings"].values()):
        for key, value in settings.items():
            if key.endswith("epochs") and value:
                settings[key] = max(1, round(value * scale))


SUPERVISED = Kind(
    name="supervised",
    config=RunConfig,
    groups=lambda: {
        "plan": PLAN_SETTINGS,
        "network": NetworkSettings,
        "settings": None,
        "data": DataSettings,
    },
    preset=preset,
    default_preset="default",
    shrink=shrink_epochs,
    check_method=parts,
    absent_data=lambda config, folder: absent_data(config.described(), folder),
    learn=learn_tasks,
    seconds=supervised_seconds,
    command="run",
    many_processes=True,
)
