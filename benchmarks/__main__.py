"""`python -m benchmarks [name ...]`: name, ratio, bar, and whether it holds."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterable

import benchmarks
from benchmarks.timing import Bar


def found() -> dict[str, Callable[[], Iterable[Bar]]]:
    """What there is to measure: each module here that has a function `measure`, by its name."""
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
    modules = {name: importlib.import_module(f"benchmarks.{name}") for name in names}
    return {name: each.measure for name, each in modules.items() if hasattr(each, "measure")}


def main(wanted: list[str]) -> int:
    """Run the named benchmarks, or all; 1 if a bar does not hold."""
    names = found()
    unknown = [name for name in wanted if name not in names]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(names)}")
        return 2
    failed = 0
    print(f"{'what':58} {'ratio':>7} {'bar':>6}  holds")
    for name in wanted or names:
        for bar in names[name]():
            failed += not bar.holds
            holds = "yes" if bar.holds else "NO"
            print(f"{bar.name:58} {bar.ratio:7.3f} {bar.limit:6.2f}  {holds:4} {bar.detail}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
