"""`uclearn rl`: reinforcement learning, one task after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from uclearn.cli import options
from uclearn.cli.estimate import Estimated, Without, announce, kept
from uclearn.errors import SettingError

if TYPE_CHECKING:
    from uclearn.cli.launch import Launch
    from uclearn.runs.rl import RLConfig

app = typer.Typer(
    help="Reinforcement learning (PPO) over a sequence of environments.", no_args_is_help=True
)

Sequence: TypeAlias = Annotated[
    str,
    options.one_of(
        "sequences",
        "What to learn: {sequences}, or ids of gymnasium environments with commas, as "
        "Pendulum-v1,MountainCarContinuous-v0.",
    ),
]
Scale: TypeAlias = Annotated[
    float,
    typer.Option(
        min=0.0001,
        max=1.0,
        help="Shrink the steps to this share, to save time. Such runs are marked as scaled "
        "wherever they are shown.",
    ),
]


References: TypeAlias = Annotated[
    bool,
    typer.Option(
        help="Also let a fresh network learn each environment alone, which rewards are measured by."
    ),
]


@dataclass(frozen=True)
class Chosen:
    """Options that choose the settings of runs."""

    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Steps per task. Short for --set plan.steps_per_task=N."),
    ] = None
    tasks: options.Tasks = None
    preset: Annotated[
        str,
        typer.Option(
            help="Where settings of methods come from: {presets}. `default` takes them by rule, "
            "`paper` and `best` follow the paper.",
            autocompletion=options.completing("presets"),
        ),
    ] = "paper"
    scale: Scale = 1.0
    settings: options.Set = None
    config: options.Config = None

    def gathered(self) -> dict[str, Any]:
        """Settings by dotted key."""
        chosen = options.gathered(
            self.config, self.settings, tasks=self.tasks, plan__steps_per_task=self.steps
        )
        for word in ("benchmark", "preset"):
            if word in chosen:
                raise SettingError(
                    f"`{word}` cannot be set in a file for rl: name the sequence and the preset "
                    "here."
                )
        return chosen

    def make(
        self,
        launch: Launch,
        sequence: str,
        methods: list[str],
        seeds: int,
        overrides: dict[str, Any],
        references: bool = False,
    ) -> None:
        """Make a run for each method and seed, and the runs that they are measured by."""
        from uclearn.runs.rl import resolve_rl, with_references

        scale = self.scale if self.scale < 1 else None
        same = {"preset": self.preset, "scale": scale, "overrides": overrides, "methods": methods}
        resolved = partial(resolve_rl, sequence, **same)
        configs = [resolved(name, seed=seed) for seed in range(seeds) for name in methods]
        _check_simulators(configs)
        launch.make(with_references(configs) if references else configs)


@app.command(cls=options.Command)
@options.spelled_out
def run(
    sequence: Sequence,
    method: Annotated[
        str | None,
        typer.Option(help="Which of: {rl_methods}. Default: ucl.", show_default=False),
    ] = None,
    seeds: options.Seeds = 1,
    *,
    chosen: Chosen,
    making: options.Acting,
) -> None:
    """Learn to act in a sequence of environments with one method.

    Run the same command again and it goes on where it was stopped, or says that it is done.
    """
    settings = chosen.gathered()
    name = options.taken(settings, "method", method) or "ucl"
    chosen.make(making.launch(), sequence, [name], seeds, settings)


@app.command(cls=options.Command)
@options.spelled_out
def compare(
    sequence: Sequence,
    methods: Annotated[
        str, typer.Option(metavar="NAME,NAME,...", help="Which methods: {rl_methods}.")
    ] = "finetuning,ewc,ucl",
    seeds: options.Seeds = 3,
    references: References = True,
    *,
    chosen: Chosen,
    making: options.Acting,
) -> None:
    """Learn to act in the same environments with several methods and seeds, in parallel.

    Rewards are measured by what a random policy earns (0) and by the best that a fresh network
    reaches alone with the same steps (1): these are runs of their own.
    """
    settings = chosen.gathered()
    if "method" in settings:
        raise SettingError("`method` cannot be set in a file for compare: name it here.")
    names = list(dict.fromkeys(name.strip() for name in methods.split(",")))
    chosen.make(making.launch(), sequence, names, seeds, settings, references)


@app.command(cls=options.Command)
@options.spelled_out
def reproduce(
    what: Annotated[str, options.one_of("rl_studies", "Which of: {rl_studies}.", "FIGURE")],
    scale: Scale = 1.0,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Default: as many as it has.", show_default=False)
    ] = None,
    references: References = True,
    estimate: Estimated = False,
    without: Without = None,
    *,
    making: options.Acting,
) -> None:
    """Make a figure of the paper's reinforcement learning again, with its settings.

    Run the same command again and only what is missing is made. `--estimate` does not count the
    time of judging.
    """
    from uclearn.paper.studies import rl_study, study_configs
    from uclearn.runs.rl import resolve_rl, with_references

    wanted = rl_study(what)
    launch = making.launch()
    if launch.mode == "live":
        typer.echo(f"{what}: {wanted.title}. {wanted.note}".strip())
        if scale < 1:
            typer.echo(f"SCALED to {scale:g} of the steps: not to be compared with the paper.")
    shrunk = scale if scale < 1 else None
    configs = kept(study_configs(wanted, resolve_rl, scale=shrunk, seeds=seeds), without)
    _check_simulators(configs)
    every = with_references(configs) if references else configs
    if estimate:
        announce(every, launch)
    else:
        launch.make(every, f"{what}: {wanted.title}")


def _check_simulators(configs: list[RLConfig]) -> None:
    """Say what is missing now, not once for each run."""
    from uclearn.rl.environments import survey

    survey([name for config in configs for name in config.environments()])
