"""`uclearn rl`: reinforcement learning, one task after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from uclearn.cli import options
from uclearn.errors import SettingError

if TYPE_CHECKING:
    from uclearn.runs.rl import RLConfig

app = typer.Typer(
    help="Reinforcement learning (PPO) over a sequence of environments.", no_args_is_help=True
)

Sequence: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="What to learn: {sequences}, or ids of gymnasium environments with commas, as "
        "Pendulum-v1,MountainCarContinuous-v0.",
        autocompletion=options.completing("sequences"),
        show_default=False,
    ),
]
Steps: TypeAlias = Annotated[
    int | None,
    typer.Option(min=1, help="Steps per task. Short for --set plan.steps_per_task=N."),
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


@app.command(cls=options.Command)
@options.spelled_out
def run(
    sequence: Sequence,
    method: Annotated[
        str | None,
        typer.Option(help="Which of: {rl_methods}. Default: ucl.", show_default=False),
    ] = None,
    seeds: options.Seeds = 1,
    steps: Steps = None,
    tasks: options.Tasks = None,
    scale: Scale = 1.0,
    settings: options.Set = None,
    config: options.Config = None,
    *,
    making: options.Acting,
) -> None:
    """Learn to act in a sequence of environments with one method.

    Run the same command again and it goes on where it was stopped, or says that it is done.
    """
    chosen = _gathered(config, settings, steps, tasks)
    name = options.taken(chosen, "method", method) or "ucl"
    launch = making.launch()
    launch.make(_configs(sequence, [name], seeds, scale, chosen))


@app.command(cls=options.Command)
@options.spelled_out
def compare(
    sequence: Sequence,
    methods: Annotated[
        str, typer.Option(metavar="NAME,NAME,...", help="Which methods: {rl_methods}.")
    ] = "finetuning,ewc,ucl",
    seeds: options.Seeds = 3,
    steps: Steps = None,
    tasks: options.Tasks = None,
    scale: Scale = 1.0,
    settings: options.Set = None,
    config: options.Config = None,
    *,
    making: options.Acting,
) -> None:
    """Learn to act in the same environments with several methods and seeds, in parallel.

    Rewards are normalised by the range that EWC reaches, so have it among the methods.
    """
    chosen = _gathered(config, settings, steps, tasks)
    if "method" in chosen:
        raise SettingError("`method` cannot be set in a file for compare: name it here.")
    names = list(dict.fromkeys(name.strip() for name in methods.split(",")))
    launch = making.launch()
    launch.make(_configs(sequence, names, seeds, scale, chosen))


@app.command(cls=options.Command)
@options.spelled_out
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="Which of: {rl_studies}.",
            autocompletion=options.completing("rl_studies"),
            show_default=False,
        ),
    ],
    scale: Scale = 1.0,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Default: as many as it has.", show_default=False)
    ] = None,
    *,
    making: options.Acting,
) -> None:
    """Make a figure of the paper's reinforcement learning again, with its settings."""
    from uclearn.paper.studies import rl_study, study_configs
    from uclearn.runs.rl import resolve_rl

    wanted = rl_study(what)
    launch = making.launch()
    if launch.mode == "live":
        typer.echo(f"{what}: {wanted.title}. {wanted.note}".strip())
        if scale < 1:
            typer.echo(f"SCALED to {scale:g} of the steps: not to be compared with the paper.")
    configs = study_configs(wanted, resolve_rl, scale=scale if scale < 1 else None, seeds=seeds)
    _check_simulators(configs)
    launch.make(configs, f"{what}: {wanted.title}")


def _gathered(config: Any, settings: Any, steps: int | None, tasks: int | None) -> dict[str, Any]:
    chosen = options.gathered(config, settings, tasks=tasks, plan__steps_per_task=steps)
    for word in ("benchmark", "preset"):
        if word in chosen:
            raise SettingError(f"`{word}` cannot be set in a file for rl: name the sequence here.")
    return chosen


def _configs(
    sequence: str, methods: list[str], seeds: int, scale: float, chosen: dict[str, Any]
) -> list[RLConfig]:
    from uclearn.runs.rl import resolve_rl

    configs = [
        resolve_rl(
            sequence,
            name,
            seed=seed,
            scale=scale if scale < 1 else None,
            overrides=chosen,
            methods=methods,
        )
        for seed in range(seeds)
        for name in methods
    ]
    _check_simulators(configs)
    return configs


def _check_simulators(configs: list[RLConfig]) -> None:
    """Say what is missing now, not once for each run."""
    from uclearn.rl.environments import survey

    survey([name for config in configs for name in config.environments()])
