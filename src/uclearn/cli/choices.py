"""What can be chosen, from the registries: in help texts, in completion, never typed twice.

The registries import torch, which takes seconds; so names are looked up only when they are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand


def benchmark_names() -> list[str]:
    """All benchmarks."""
    from uclearn.tasks.benchmarks import BENCHMARKS

    return list(BENCHMARKS)


def method_names() -> list[str]:
    """All methods, without wrappers."""
    from uclearn.methods.registry import METHODS

    return list(METHODS)


def wrapper_names() -> list[str]:
    """What can be put around a method."""
    from uclearn.methods.registry import WRAPPERS

    return list(WRAPPERS)


def preset_names() -> list[str]:
    """All presets."""
    from uclearn.runs.presets import PRESETS

    return list(PRESETS)


def study_names() -> list[str]:
    """What of the paper can be made again."""
    from uclearn.paper.studies import STUDIES

    return [*STUDIES, "table-1"]


def sequence_names() -> list[str]:
    """All named sequences of environments."""
    from uclearn.rl.catalogue import SEQUENCES

    return list(SEQUENCES)


def rl_method_names() -> list[str]:
    """Methods that work in reinforcement learning."""
    from uclearn.runs.rl.presets import RL_METHODS

    return list(RL_METHODS)


def rl_study_names() -> list[str]:
    """What of the paper's reinforcement learning can be made again."""
    from uclearn.paper.studies import RL_STUDIES

    return list(RL_STUDIES)


def data_set_names() -> list[str]:
    """All data sets that can be downloaded."""
    from uclearn.tasks.sources.catalogue import CATALOGUE

    return list(CATALOGUE)


def sampler_names() -> list[str]:
    """How values to try can be chosen."""
    from uclearn.runs.tune import SAMPLERS

    return list(SAMPLERS)


_NAMES: dict[str, Callable[[], list[str]]] = {
    "{benchmarks}": benchmark_names,
    "{methods}": method_names,
    "{wrappers}": wrapper_names,
    "{presets}": preset_names,
    "{studies}": study_names,
    "{datasets}": data_set_names,
    "{sequences}": sequence_names,
    "{rl_studies}": rl_study_names,
    "{samplers}": sampler_names,
    "{rl_methods}": rl_method_names,
}


class Command(TyperCommand):
    """A command whose help names the choices there are: `{benchmarks}` becomes their names."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Look the names up, then show the help."""
        for parameter in self.params:
            text = getattr(parameter, "help", None) or ""
            for placeholder, names in _NAMES.items():
                if placeholder in text:
                    text = text.replace(placeholder, ", ".join(names()))
            if text:
                setattr(parameter, "help", text)  # noqa: B010 (no attribute of the base class)
        super().format_help(ctx, formatter)


def completing(names: Callable[[], list[str]]) -> Callable[[str], list[str]]:
    """For shell completion: the names that begin with what has been typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete
