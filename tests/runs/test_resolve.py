from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from uclearn.errors import SettingError
from uclearn.runs.resolve import (
    parse_setting,
    parse_settings,
    read_file,
    resolve,
    settable,
)
from uclearn.runs.supervised import RunConfig

KEYS = st.sampled_from(settable("ucl+replay")) | st.text(max_size=12)
VALUES = (
    st.sampled_from(["none", "true", "local", "inf", "[1, 2]", "[]", '"x"', "1979-05-27", "{a=1}"])
    | st.integers().map(str)
    | st.floats().map(str)
    | st.text(max_size=12)
)
SETTINGS = st.builds(lambda key, value: f"{key}={value}", KEYS, VALUES) | st.text(max_size=24)


@pytest.mark.slow
@settings(max_examples=200)
@given(SETTINGS)
@example("ucl.beta=1\nplan.epochs=2")
@example("ucl.beta=" + "[" * 3000)
@example("tasks=1_0")
@example("plan.epochs=" + "9" * 5000)
def test_any_text_gives_a_configuration_or_an_error_of_one_line(text: str) -> None:
    refusal = ""
    try:
        config = resolve("split-digits", "ucl+replay", overrides=parse_settings([text]))
    except SettingError as error:
        refusal = str(error)
    if refusal:
        assert len(refusal.splitlines()) == 1
    else:
        assert RunConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ucl.beta=0.01", 0.01),
        ("ucl.beta = 1e-5", 1e-5),
        ("ucl.freeze=false", False),
        ("ucl.sampling=weight", "weight"),
        ('ucl.sampling="weight"', "weight"),
        ("plan.patience=none", None),
        ("network.hidden=[100, 50]", [100, 50]),
    ],
)
def test_values_are_toml_or_a_bare_word(text: str, value: object) -> None:
    assert parse_setting(text)[1] == value


@pytest.mark.parametrize(
    "text", ["ucl.beta", "=1", "", "ucl.beta=", "ucl.beta=1 2", "ucl.beta=a b"]
)
def test_what_is_no_setting_says_how_one_is_written(text: str) -> None:
    with pytest.raises(SettingError, match=r"is written `part.key=value`|must be a number, true"):
        parse_setting(text)


def test_a_file_has_a_table_for_each_part(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('method = "ewc"\ntasks = 2\n[plan]\nepochs = 3\n[ewc]\nstrength = 7\n')
    assert read_file(file) == {
        "method": "ewc",
        "tasks": 2,
        "plan.epochs": 3,
        "ewc.strength": 7,
    }


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"cannot be read: No such file"):
        read_file(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(SettingError, match=r"bad.toml is not TOML"):
        read_file(tmp_path / "bad.toml")


def test_settings_of_methods_compared_with_are_passed_over_but_still_checked() -> None:
    config = resolve("split-digits", "ucl", overrides={"ewc.strength": 7.0}, methods=["ucl", "ewc"])
    assert config.changed == ()
    with pytest.raises(SettingError, match=r"Did you mean `ewc.strength`\?"):
        resolve("split-digits", "ucl", overrides={"ewc.strenght": 7.0}, methods=["ucl", "ewc"])


def test_a_scale_cuts_all_that_counts_epochs_and_marks_the_run() -> None:
    config = resolve("permuted-mnist", "vcl+coreset", preset="paper", scale=0.05)
    assert config.make_plan().epochs == 10
    assert config.setting("vcl", "start_epochs") == 10
    assert config.setting("coreset", "refit_epochs") == 10
    assert config.scale == 0.05
    assert "-scale0.05-" in config.folder_name()
    with pytest.raises(SettingError, match=r"`scale`: must be less than 1, got 2.0"):
        resolve("permuted-mnist", "ucl", scale=2.0)
