"""`python -m benchmarks.unused`: the public names of the package that only its tests use.

A function, class or constant of a module is used when its own module spells it, when another one
imports it, or takes it from an imported module (`module.name`); a method when anybody spells
`.name`; everything when a text says where it is ("package.module:name"). Whoever is asked lies in
src, benchmarks or examples, and outside of the definition itself. Nothing asks what a name is bound
to: what is listed is unused, but not all that is unused is listed. What the README or docs/ show in
code, users may rely on: it stays.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

ALLOWED = {
    "again": "of Noise: for networks with gradient checkpointing, in loops of users",
    "add_param_group": "called by torch's optimisers when they are made",
    "ContinualCallback": "for users of Lightning (docs/own-loop.md)",
    "ContinualTrainer": "a Trainer for users of transformers (docs/own-loop.md)",
    "check_all": "users run it on methods of their own (CONTRIBUTING)",
    "create_optimizer": "called by transformers.Trainer",
    "do_GET": "called by http.server",
    "find_class": "called by pickle.Unpickler",
    "format_help": "called by Typer",
    "GateCallback": "for users of transformers and Lightning (docs/own-loop.md)",
    "handle_data": "called by html.parser",
    "handle_endtag": "called by html.parser",
    "handle_starttag": "called by html.parser",
    "intransigence": "one of the measures in uclearn.training.metrics, which users import",
    "kl": "VCL's penalty as a function of tensors, beside the others in uclearn.penalties",
    "output_drift": "eq. (4) on outputs as a function of tensors, beside the others",
    "log_message": "called by http.server",
    "render": "called by rich, of columns of its bars",
    "register_growth": "an error says that it teaches live models to grow by another method",
    "on_before_optimizer_step": "called by Lightning's Trainer",
    "on_train_batch_end": "called by Lightning's Trainer",
    "on_save": "called by transformers.Trainer",
    "on_train_begin": "called by transformers.Trainer",
    "on_train_end": "called by transformers.Trainer and Lightning's",
    "on_train_start": "called by Lightning's Trainer",
    "setting": "of a run's configuration: how a setting is asked for, shown in its docstring",
    "widen_network": "widening for a network without a method",
}
"""Public names that stay though nothing here uses them, and why."""

_CALLED_BY_TORCH = {"forward", "extra_repr", "get_extra_state", "set_extra_state"}
_REGISTERING = {"command", "callback", "field_validator", "model_validator", "field_serializer"}
"""Decorators that hand a function to somebody who calls it."""


class Unused(NamedTuple):
    """A public name, and where it is defined."""

    path: Path
    line: int
    name: str


@dataclass
class _Spelled:
    """Which names a piece of code spells, and how often."""

    plain: Counter[str] = field(default_factory=Counter)
    imported: Counter[str] = field(default_factory=Counter)
    of_modules: Counter[str] = field(default_factory=Counter)
    """After the dot of something that was imported."""
    attributes: Counter[str] = field(default_factory=Counter)
    """After any dot."""
    located: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def by(tree: ast.AST, passes_on: bool = False) -> _Spelled:
        """An `__init__` that only `passes_on` what it imports does not use it."""
        found, modules = _Spelled(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules |= {alias.asname or alias.name for alias in node.names}
                if isinstance(node, ast.ImportFrom):
                    found.imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.plain[node.id] += 1
            elif isinstance(node, ast.Attribute):
                found.attributes[node.attr] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.located.update(re.findall(r"^[\w.]+:(\w+)$", node.value))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found.of_modules[node.attr] += node.value.id in modules
        if passes_on:
            found.imported &= found.plain
        return found


def unused(root: Path = ROOT) -> list[Unused]:
    """What nothing uses of the package in `root`/src."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(root.glob("src/**/*.py"))}
    spelled = {path: _Spelled.by(tree, _passes_on(path)) for path, tree in trees.items()}
    for folder in ("benchmarks", "examples"):
        for path in root.glob(f"{folder}/*.py"):
            spelled[path] = _Spelled.by(ast.parse(path.read_text()))
    everywhere = {
        kind: sum((getattr(one, kind) for one in spelled.values()), Counter[str]())
        for kind in ("imported", "of_modules", "attributes", "located")
    }
    exempt = _documented(root) | ALLOWED.keys()
    found = []
    for path, tree in trees.items():
        for name, node, is_method in _public(tree):
            own = _Spelled.by(node)
            uses = everywhere["located"][name]
            if is_method:
                uses += everywhere["attributes"][name] - own.attributes[name]
            else:
                uses += spelled[path].plain[name] - own.plain[name]
                uses += everywhere["imported"][name] + everywhere["of_modules"][name]
            if not uses and name not in exempt:
                found.append(Unused(path.relative_to(root), node.lineno, name))
    return found


def _passes_on(path: Path) -> bool:
    return path.name == "__init__.py"


def _public(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, bool]]:
    """The functions, classes, constants and methods that a module offers, and which are methods."""
    for node in tree.body:
        yield from ((name, node, False) for name in _names(node) if not name.startswith("_"))
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef):
                names = set(_names(inner)) - _CALLED_BY_TORCH
                yield from ((name, inner, True) for name in names if not name.startswith("_"))


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [] if _registered(node) else [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _registered(node: ast.FunctionDef | ast.ClassDef) -> bool:
    called = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return any(getattr(d, "attr", getattr(d, "id", "")) in _REGISTERING for d in called)


def _documented(root: Path) -> set[str]:
    words: set[str] = set()
    for page in (root / "README.md", *root.glob("docs/**/*.md")):
        text = page.read_text() if page.exists() else ""
        for code in re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL):
            words.update(re.findall(r"\w+", code))
    return words


def main() -> int:
    """List them; an error if there are any."""
    found = unused()
    for path, line, name in found:
        print(f"{path}:{line}: {name} is used by tests alone")
    if found:
        print("Remove them with their tests, or say in benchmarks/unused.py why they stay.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
