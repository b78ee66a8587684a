"""Through how many of our files a call passes: what a newcomer has to open to follow it.

Counted are files and functions of the installed package that are really called. Module-level code
and class bodies do not count, nor do functions that only run while a module is imported: all
modules are imported before. `python -m benchmarks.passage --list` names the files.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import pkgutil
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

import uclearn
from benchmarks.timing import Bar

PACKAGE = Path(next(iter(uclearn.__path__))).resolve()
COMPARE = (
    *("compare", "permuted-digits", "--methods", "ucl"),
    *("--seeds", "1", "--tasks", "2", "--epochs", "1"),
)
COMPARE_FILES, LEARN_FILES = 45, 25


@dataclass
class Passage:
    """The functions of ours that were called, while it lasts, on any thread."""

    codes: set[CodeType] = field(default_factory=set)

    @property
    def functions(self) -> dict[str, int]:
        """How many functions of different names were called, by file within the package."""
        called = {(code.co_filename, code.co_name) for code in self.codes}
        files = (Path(file).relative_to(PACKAGE).as_posix() for file, _ in called)
        return dict(sorted(Counter(files).items()))

    @property
    def words(self) -> str:
        """In short."""
        return f"{len(self.functions)} files, {sum(self.functions.values())} functions"

    def begin(self) -> None:
        """Count from here on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def end(self) -> None:
        """Count no more."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        function = code.co_flags & inspect.CO_OPTIMIZED  # neither a module nor a class body
        if event == "call" and function and code.co_filename.startswith(str(PACKAGE)):
            self.codes.add(code)


def import_all() -> None:
    """Import every module of the package that can be imported here."""
    for module in pkgutil.walk_packages(uclearn.__path__, "uclearn."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an extra that is not installed
                importlib.import_module(module.name)


def compare() -> Passage:
    """`uclearn compare` until the first `summary.json` is in place; one run needs no other
    process."""
    from uclearn.cli.app import main as command

    passage, running = Passage(), True

    def until_summary(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal running
        if running and event == "os.rename" and str(arguments[1]).endswith("summary.json"):
            running = False
            passage.end()

    before, silence = sys.argv, io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(silence),
        contextlib.redirect_stderr(silence),
    ):
        sys.addaudithook(until_summary)
        sys.argv = ["uclearn", *COMPARE, "--out", folder]
        passage.begin()
        try:
            with contextlib.suppress(SystemExit):  # the command ends with its exit code
                command()
        finally:
            passage.end()
            sys.argv = before
        if running or not list(Path(folder).glob("**/summary.json")):
            raise RuntimeError("the run left no summary.json: nothing to count by")
    return passage


def learn() -> Passage:
    """`Learner.learn` of a second task, with a gate."""
    from uclearn.live.gate import Gate
    from uclearn.live.learner import Learner
    from uclearn.networks import mlp
    from uclearn.training import Plan

    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(200, 4, generator=draw), torch.randint(2, (200,), generator=draw)
    learner = Learner(mlp(4, (16, 16), None), "ucl", plan=Plan(epochs=2, batch_size=32))
    gate = Gate(max_drop=0.5)
    learner.learn((x[:100], y[:100]), name="first", gate=gate)
    passage = Passage()
    passage.begin()
    try:
        learner.learn((x[100:], y[100:]), name="second", gate=gate)
    finally:
        passage.end()
    return passage


CALLS: dict[str, tuple[Callable[[], Passage], int]] = {
    "uclearn compare permuted-digits": (compare, COMPARE_FILES),
    "Learner.learn": (learn, LEARN_FILES),
}
"""What is called, and through how many files it may pass."""


def measure() -> Iterator[Bar]:
    """Files passed, as a share of how many may be."""
    import_all()
    for name, (call, limit) in CALLS.items():
        passage = call()
        detail = f"{passage.words}; at most {limit} files"
        yield Bar(f"{name}: files / bar", len(passage.functions) / limit, 1.0, detail)


def main(arguments: list[str]) -> int:
    """Print the counts, with `--list` every file; 1 if there are too many."""
    import_all()
    too_many = 0
    for name, (call, limit) in CALLS.items():
        passage = call()
        holds = len(passage.functions) <= limit
        too_many += not holds
        print(f"{name}: {passage.words} (at most {limit} files: {'yes' if holds else 'NO'})")
        if "--list" in arguments:
            print(*(f"    {n:4} {file}" for file, n in passage.functions.items()), sep="\n")
    return 1 if too_many else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
