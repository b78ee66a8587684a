"""`python -m benchmarks.stories`: run the stories of docs/pretrained.md, and write their tables.

Some minutes on two cores; with `UCLEARN_DATA` set the second one looks at MNIST and notMNIST.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from types import ModuleType

from benchmarks.pages import filled

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "pretrained.md"
STORIES = ("language_model", "small_vit")


def load(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Tell them again."""
    parser = argparse.ArgumentParser(description="The stories of docs/pretrained.md.")
    parser.add_argument("stories", nargs="*", default=STORIES, help="those to tell again")
    for name in parser.parse_args().stories:
        example = load(name)
        table = example.table(*example.compare())
        print(f"{name}\n\n{table}\n")
        PAGE.write_text(filled(PAGE.read_text(), {name: table}))


if __name__ == "__main__":
    main()
