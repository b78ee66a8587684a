"""`python -m benchmarks [--record FILE] [name ...]`: name, ratio, bar, and whether it holds."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import benchmarks
from benchmarks.record import keep
from benchmarks.timing import Bar


def found() -> dict[str, Callable[[], Iterable[Bar]]]:
    """What there is to measure: each module here that has a function `measure`, by its name."""
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    return {name: each.measure for name, each in modules.items() if hasattr(each, "measure")}


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all; 1 if a bar does not hold."""
    record, wanted = _record_wanted(arguments)
    names = found()
    unknown = [name for name in wanted if name not in names]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(names)}")
        return 2
    bars: list[Bar] = []
    print(f"{'what':58} {'ratio':>7} {'bar':>6}  holds")
    for name in wanted or names:
        for bar in names[name]():
            bars.append(bar)
            holds = "yes" if bar.holds else "NO"
            print(f"{bar.name:58} {bar.ratio:7.3f} {bar.limit:6.2f}  {holds:4} {bar.detail}")
    if record is not None:
        keep(record, bars)
    return 0 if all(bar.holds for bar in bars) else 1


def _record_wanted(arguments: list[str]) -> tuple[Path | None, list[str]]:
    match arguments:
        case ["--record", path, *names]:
            return Path(path), names
        case _:
            return None, arguments


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
