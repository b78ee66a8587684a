"""The command that makes a group again."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

from uclearn.report.groups import Group
from uclearn.report.settings import Config, benchmark_of, changed_in, flatten, method_of

_SEEDS = re.compile(r"--seeds[ =](\d+)")


def commands(group: Group) -> list[str]:
    """What was typed, where the runs say so (`command` in their `extra`), each once; otherwise
    what makes the same runs again."""
    said = [summary.extra.get("command") for summary in group.summaries]
    if all(isinstance(command, str) and command for command in said):
        return most_seeds([str(command) for command in said])
    return [rebuilt(group.runs[0].config, group.seeds)]


def most_seeds(typed: Sequence[str]) -> list[str]:
    """Each command once: one for more seeds makes the runs of the same for fewer, too.

    >>> most_seeds(["uclearn run --seeds 3", "uclearn run --json", "uclearn run --seeds 5"])
    ['uclearn run --seeds 5', 'uclearn run --json']
    """
    kept: dict[str, tuple[int, str]] = {}
    for command in typed:
        found = _SEEDS.search(command)
        count = int(found[1]) if found else 0
        same = _SEEDS.sub("", command) if found else command
        kept[same] = max(kept.get(same, (0, command)), (count, command))
    return [command for _, command in kept.values()]


def rebuilt(config: Config, seeds: Sequence[int]) -> str:
    """A command from the configuration alone: what it says was changed, or else every setting.

    >>> rebuilt({"benchmark": "split-digits", "method": "ewc", "preset": "best",
    ...          "changed": ["ewc.gamma=0.9"]}, seeds=[0, 1])
    'uclearn run split-digits --method ewc --preset best --seeds 2 --set ewc.gamma=0.9'
    """
    words = ["uclearn", *_subject(config), "--method", method_of(config)]
    if preset := config.get("preset"):
        words += ["--preset", str(preset)]
    words += ["--seeds", str(max(seeds) + 1)]  # the command counts them from 0
    for setting in changed_in(config) if "changed" in config else _all_settings(config):
        words += ["--set", setting]
    return shlex.join(words)


def _subject(config: Config) -> list[str]:
    acts, _, sequence = benchmark_of(config).partition("rl ")
    return ["rl", "run", sequence] if sequence and not acts else ["run", benchmark_of(config)]


def _all_settings(config: Config) -> list[str]:
    plan, settings = (_mapping(config.get(key)) for key in ("plan", "settings"))
    given = {"tasks": config.get("tasks"), "plan.epochs": plan.get("epochs")}
    flat = {key: value for key, value in given.items() if value is not None} | flatten(settings)
    spelled = {k: v if isinstance(v, str) else json.dumps(v) for k, v in flat.items() if v != {}}
    return [f"{key}={value}" for key, value in spelled.items()]


def _mapping(value: object) -> Config:
    return value if isinstance(value, Mapping) else {}
