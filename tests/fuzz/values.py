"""What may be typed for one parameter: from what its own declaration says it takes, to what nobody
should ever type."""

from __future__ import annotations

import re
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from tests.fuzz.playground import names
from uclearn.cli import options

Text = st.SearchStrategy[str]

LONG = "x" * 5000
_HOSTILE = (
    *("", " ", ".", "..", "-", "--", "-1", "0", "./.", "../..", "~nobody-is-called-so/x", "$HOME"),
    *("\n", "\t", "a\nb", "\x1b[31m", "\r", "\x7f"),
    *("\udcff", "a\udc80b", "\u202e", "é", "é", "日本", "🙂", "ſ", "İ", "\ufeff"),
    *(LONG, "x" * 256, "a/" * 300, "x y " * 600, "[" * 3000),
    *(
        "*",
        "?",
        "[a-z]",
        "[",
        "]",
        "[/bold]",
        "[red]",
        "{",
        "{0}",
        "{methods}",
        "%s",
        "%",
        "#",
        "'",
        '"',
    ),
    *("nan", "NaN", "inf", "-inf", "1e400", "-1e400", "1e-400", "0x10", "1_000", "１", "1.5", "1,"),
    *(
        "true",
        "none",
        "None",
        "null",
        "=",
        "a=",
        "=a",
        "a=b=c",
        "a.b.c=1",
        "..",
        "1..2",
        "1..2:log",
    ),
    *(str(2**31), str(2**63), str(2**64), str(10**30), str(-(2**63)), "9" * 5000),
    *("CON", "nul", "a:b", ":", "os:", ":path", "math:sqrt", "nowhere:nothing", "a::b"),
    *("memory://x", "nonsense://x", "s3://bucket/x", "http:/x", "file:x"),
    *("/proc/self/fdinfo", "/proc/nowhere/x", "/dev/null", "/dev/null/x", "/dev/full"),
    *(
        ",",
        ",,",
        "ucl,",
        ",ucl",
        "ucl,ucl",
        "+",
        "ucl+",
        "+replay",
        "ucl+replay+replay",
        "ucl++replay",
    ),
    *("all", "ALL", "Ucl", "ucl ", "permuted-digits ", "__class__", "help"),
)
_PLAUSIBLE_INTEGERS = ("1", "1", "1", "2", "2", "3", "8")
_PLAUSIBLE_SHARES = ("0.5", "0.1", "0.2", "1", "0.01")
_CLUSTERS = ("ray", "slurm")
"""Not to be started here: they have tests of their own."""
_NAMED = re.compile(r"\{(\w+)\}")
_KEYS = (
    *(
        "plan.epochs",
        "plan.lr",
        "plan.batch_size",
        "plan.schedule",
        "plan.precision",
        "plan.warmup",
    ),
    *("ucl.beta", "ucl.sigma", "ucl.hold", "ucl.lr_sigma", "ewc.strength", "lwf.strength"),
    *(
        "network.hidden",
        "network.kind",
        "data.copies",
        "seed",
        "tasks",
        "beta",
        "strength",
        "hat.smax",
    ),
    *(
        "replay.size",
        "coreset.size",
        "vcl.sampling",
        "plan",
        "benchmark",
        "method",
        "preset",
        "x.y",
    ),
)
_SETTINGS = (
    *("1", "0", "-1", "0.5", "1e-9", "1e300", "nan", "inf", "true", "none", "auto", "[8]", "[]"),
    *("[0]", "[-1]", "[8,8]", '"word"', '""', "[[8]]", "[1.5]", "{a=1}", "99999999999999999999"),
    *(
        "1979-05-27",
        "cosine",
        "float32",
        "bfloat16",
        "outputs",
        "[" * 2000,
        "1000000000",
        "[1000000]",
    ),
)


def hostile() -> Text:
    """Anything at all; none of it leads out of the folder."""
    letters = st.characters(codec="utf-8", exclude_characters="\0")  # the system passes on none
    return st.one_of(st.sampled_from(_HOSTILE), st.text(letters, max_size=12).map(_inside))


def _inside(text: str) -> str:
    """A path that begins at the root would be one on this machine; so would a URL of it."""
    return f".{text}" if text.startswith("/") or "://" in text else text


def plausible(kind: Any, about: str) -> Text:
    """What a parameter takes: by its type, and by what its help says."""
    if get_origin(kind) is Literal:
        return st.sampled_from([word for word in get_args(kind) if word not in _CLUSTERS])
    if kind is int:
        return st.sampled_from(_PLAUSIBLE_INTEGERS)
    if kind is float:
        return st.sampled_from(_PLAUSIBLE_SHARES)
    if found := _NAMED.findall(about):
        known = [name for what in found for name in options.names(what)]
        here = [name for name in known if "digits" in name]  # their data come with the package
        return st.sampled_from([*known, *here * 8]) | _lying(_KINDS["csv"])
    if "KEY=" in about:
        values = st.sampled_from(_SETTINGS) | hostile()
        return st.tuples(st.sampled_from(_KEYS), values).map("=".join)
    if kind is Path or "PATH" in about or "FOLDER" in about:
        meant = [_lying(kinds) for word, kinds in _KINDS.items() if word in about]
        return st.one_of(*meant * 4, _lying())
    return st.sampled_from(("label", "fault", "a", "b", "first", "8", "8,8", "cpu", "tensorboard"))


_KINDS = {
    "model": ("model",),
    "run": ("runs",),
    "TOML": (".toml", ".json"),
    "csv": (".csv", ".npz", ".parquet", "pictures"),
}
"""By a word in the help of a parameter: in the names of what it takes."""


def _lying(kinds: tuple[str, ...] = ("",)) -> Text:
    """Names of what lies in the folder."""
    return st.deferred(
        lambda: st.sampled_from([n for n in names() if any(kind in n for kind in kinds)])
    )


def value(kind: Any, about: str, mood: int) -> Text:
    """What may be typed: one value in `mood` is hostile."""
    sound = plausible(kind, about)
    return st.integers(1, mood).flatmap(lambda k: sound if k < mood else hostile())


def bare(annotation: Any) -> Any:
    """The type of one value: without `None`, without what help it has, of a list one."""
    if hasattr(annotation, "__metadata__"):
        return bare(annotation.__origin__)
    inner = [each for each in get_args(annotation) if each is not type(None)]
    if isinstance(annotation, UnionType) or get_origin(annotation) in (Union, list):
        return bare(inner[0])
    return annotation
