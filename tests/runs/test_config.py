from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.runs.small import small
from uclearn.errors import SettingError
from uclearn.methods.registry import METHODS, WRAPPERS, keywords
from uclearn.runs.config import FROM_THE_RUN, part_settings
from uclearn.runs.resolve import resolve
from uclearn.runs.supervised import PLAN_SETTINGS, RunConfig
from uclearn.training.plan import Plan

PARTS = [*METHODS, *WRAPPERS]


@pytest.mark.parametrize("part", PARTS)
def test_settings_are_the_keywords_of_the_constructor_with_its_defaults(part: str) -> None:
    fields = part_settings(part).model_fields
    unsettable = {*FROM_THE_RUN, "plain", "loss"}  # of the run; modules and functions
    assert set(fields) == set(keywords(part)) - unsettable
    for name, field in fields.items():
        assert field.default == keywords(part)[name].default


def test_the_plan_has_all_fields_of_plan_but_what_the_run_gives() -> None:
    left_out = {"seed", "checkpoint_seconds"}
    assert set(PLAN_SETTINGS.model_fields) == set(inspect.signature(Plan).parameters) - left_out


@pytest.mark.parametrize("method", [*METHODS, "vcl+coreset", "ucl+replay", "ewc+replay+coreset"])
def test_json_and_back_is_the_same_configuration(method: str) -> None:
    config = small(method, seed=3)
    again = RunConfig.from_json(config.to_json())
    assert again == config
    assert again.fingerprint() == config.fingerprint()
    assert RunConfig.from_document(json.loads(config.to_json())).document() == config.document()


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        small().seed = 2
    with pytest.raises(ValidationError, match="frozen"):
        setattr(small().plan, "epochs", 2)  # noqa: B010


def test_the_fingerprint_follows_every_setting_and_no_note() -> None:
    config = small()
    others = [small(seed=1), small(ucl__beta=0.5), small(plan__lr=0.5), small("ewc")]
    assert len({c.fingerprint() for c in (config, *others)}) == 5
    document = config.document() | {"changed": ["another wording"]}
    assert RunConfig.from_document(document).fingerprint() == config.fingerprint()


def test_runs_that_differ_in_the_seed_are_neighbours() -> None:
    first, second = small(seed=0).folder_name(), small(seed=1).folder_name()
    assert first.removesuffix("seed-0") == second.removesuffix("seed-1")
    assert first.startswith("split-digits/ucl-default-")


def test_what_was_changed_is_noted_and_what_was_not_is_not() -> None:
    assert small().changed == ("tasks=2", "plan.epochs=1", "network.hidden=[8]")
    same = small(ucl__beta=small().setting("ucl", "beta"))
    assert same.changed == small().changed


def test_methods_get_what_follows_from_the_run() -> None:
    given = small("hat", seed=7).keyword_arguments(tasks=5)["hat"]
    assert (given["seed"], given["tasks"]) == (7, 5)
    given = small("ewc").keyword_arguments(tasks=5)["ewc"]
    assert given["closed_form"] is True
    assert "seed" not in given


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ucl__beta": -1.0}, "`beta` must be 0 or greater and finite, got -1.0."),
        ({"ucl__beta": "much"}, "`ucl.beta`: must be a valid number or 'auto', got 'much'."),
        ({"ucl__beta": True}, "`ucl.beta`: must be a valid number or 'auto', got True."),
        ({"ucl__beta": float("nan")}, "`ucl.beta`: must be a finite number or 'auto', got nan."),
        ({"ucl__ratio": 1.5}, "`ratio` must lie strictly between 0 and 1, got 1.5."),
        ({"ucl__sampling": "often"}, "`ucl.sampling`: must be 'weight' or 'local', got 'often'."),
        ({"plan__epochs": 0}, "`epochs` must be at least 1, got 0."),
        ({"plan__epochs": 1.5}, "`plan.epochs`: must be a valid integer, got 1.5."),
        ({"plan__weight_decay": -1.0}, "`plan.weight_decay` must be 0 or greater, got -1.0."),
        ({"plan__clip_norm": 0.0}, "`plan.clip_norm` must be greater than 0, got 0.0."),
        ({"tasks": 6}, "`tasks` must lie between 1 and 5 for split-digits, got 6."),
        ({"network__hidden": []}, "`network.hidden` must hold the width of at least one hidden"),
        ({"network__dropout": 1.0}, "`network.dropout` must be 0 or greater and less than 1"),
        ({"data__judge": "mood"}, "`data.judge`: must be 'test' or 'validation', got 'mood'."),
        ({"ucl__bata": 1.0}, "There is no setting `ucl.bata`. Did you mean `ucl.beta`?"),
        ({"plan__epoch": 1}, "There is no setting `plan.epoch`. Did you mean `plan.epochs`?"),
        ({"ewc__strength": 1.0}, "`ewc` is no part of the method `ucl`."),
        ({"seed": -1}, "`seed`: must be greater than or equal to 0, got -1."),
        ({"benchmark": "mnist"}, "There is no benchmark 'mnist'."),
        ({"method": "uc"}, "There is no method 'uc'. Did you mean 'ucl'?"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as refusal:
        small(**settings)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_convolutional_network_is_not_to_be_changed() -> None:

    with pytest.raises(SettingError, match=r"`network` must be left as it is for omniglot"):
        resolve("omniglot", "ucl", overrides={"network.hidden": [8]})


def test_a_setting_that_came_later_renames_no_run() -> None:
    """Runs made before `plan.precision` existed are still found, and it can be set all the same."""
    config = small(preset="best")
    assert "precision" not in config.document()["plan"]
    assert config.make_plan().precision == "float32"
    assert "hold" not in config.document()["settings"]["ucl"]
    assert RunConfig.from_document(config.document()) == config
    short = small(preset="best", plan__precision="bfloat16")
    assert short.document()["plan"]["precision"] == "bfloat16"
    assert short.fingerprint() != config.fingerprint()
    assert RunConfig.from_json(short.to_json()).make_plan().precision == "bfloat16"


def test_copies_that_were_not_chosen_rename_no_run() -> None:
    assert "copies" not in small().document()["data"]
    fewer = resolve("omniglot", "ewc", overrides={"data.copies": 4})
    assert fewer.document()["data"]["copies"] == 4
    assert RunConfig.from_json(fewer.to_json()) == fewer
    with pytest.raises(SettingError, match=r"`data.copies`"):
        resolve("omniglot", "ewc", overrides={"data.copies": -1})
