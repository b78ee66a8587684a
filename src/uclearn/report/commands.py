"""The command that makes a group again."""

import shlex
from collections.abc import Mapping, Sequence

from uclearn.report.groups import Group
from uclearn.report.settings import Config, benchmark_of, flatten, method_of


def commands(group: Group) -> list[str]:
    """What was typed, where the runs say so (`command` in their `extra`), each once; otherwise
    what makes the same runs again."""
    said = [summary.extra.get("command") for summary in group.summaries]
    if all(isinstance(command, str) and command for command in said):
        return list(dict.fromkeys(str(command) for command in said))
    return [rebuilt(group.config, group.seeds)]


def rebuilt(config: Config, seeds: Sequence[int]) -> str:
    """A command from the configuration alone, every setting spelled out.

    >>> rebuilt({"benchmark": "split-digits", "method": "ewc", "settings": {"ewc": {"gamma": 1}}},
    ...         seeds=[0, 1])
    'uclearn run split-digits --method ewc --seeds 2 --set ewc.gamma=1'
    """
    words = ["uclearn", "run", benchmark_of(config), "--method", method_of(config)]
    words += ["--seeds", str(len(seeds))]
    plan = config.get("plan")
    options = {
        "preset": config.get("preset"),
        "tasks": config.get("tasks"),
        "epochs": plan.get("epochs") if isinstance(plan, Mapping) else None,
    }
    for option, value in options.items():
        words += [f"--{option}", str(value)] if value is not None else []
    settings = config.get("settings")
    for key, value in flatten(settings if isinstance(settings, Mapping) else {}).items():
        if isinstance(value, Mapping):  # a method without settings
            continue
        words += ["--set", f"{key}={_spelled(value)}"]
    return shlex.join(words)


def _spelled(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
