"""What is searched: the ranges of each setting, given or by default."""

from __future__ import annotations

import pytest

from uclearn.errors import SettingError
from uclearn.methods.facts import Range
from uclearn.methods.registry import METHODS, WRAPPERS, facts
from uclearn.paper.settings import GRIDS
from uclearn.runs.config import PRESETS
from uclearn.runs.resolve import preset_document
from uclearn.runs.supervised import SUPERVISED
from uclearn.runs.sweep import Choice, default_space, parse_space
from uclearn.runs.tune import Tuning
from uclearn.tasks.benchmarks import BENCHMARKS


def test_default_spaces_contain_what_was_published_and_every_preset() -> None:
    for part, own in ((part, facts(part).search) for part in (*METHODS, *WRAPPERS)):
        for key, each in own.items():
            for benchmark in BENCHMARKS:
                for grid in (GRIDS.get(benchmark, {}).get(part, {}).get(f"{part}.{key}", ()),):
                    assert all(each.low <= value <= each.high for value in grid)
                if part not in METHODS:
                    continue
                for preset in PRESETS:
                    value = preset_document(SUPERVISED, benchmark, part, preset)["settings"][part][
                        key
                    ]
                    if value not in (None, "auto"):
                        assert each.low <= value <= each.high, (benchmark, part, key)


def test_a_setting_that_the_preset_leaves_open_is_not_searched() -> None:
    assert "ucl.sigma" in default_space("row-permuted-mnist", "ucl", "best")
    assert "ucl.ratio" not in default_space("row-permuted-mnist", "ucl", "best")
    assert "ucl.sigma" not in default_space("omniglot", "ucl", "best")
    assert "ucl.ratio" in default_space("omniglot", "ucl", "best")
    assert {"ucl.sigma", "ucl.beta"} < set(default_space("omniglot", "ucl"))  # instead of by rule
    assert "ucl.ratio" not in default_space("omniglot", "ucl")
    assert "replay.share" in default_space("omniglot", "ucl+replay")
    with pytest.raises(SettingError, match=r"finetuning has no setting that is tuned by default"):
        Tuning("split-digits", "finetuning").searched()


def test_a_space_is_read_as_it_is_written() -> None:
    assert parse_space(["a.b=1..4", "a.c=1e-3..2:log", "a.d=x,none,3"]) == {
        "a.b": Range(1, 4),
        "a.c": Range(1e-3, 2, log=True),
        "a.d": Choice(("x", None, 3)),
    }
    for text in ("a.b", "=1..2", "a.b="):
        with pytest.raises(SettingError, match=r"A space is written `part.key=low..high`"):
            parse_space([text])
    for text in ("a.b=2..1", "a.b=x..2", "a.b=1..2:lin", "a.b=true..3"):
        with pytest.raises(SettingError, match=r"The range of `a.b` must be two numbers"):
            parse_space([text])
    with pytest.raises(SettingError, match=r"must be above 0 for :log, got '0\.\.2:log'"):
        parse_space(["a.b=0..2:log"])
