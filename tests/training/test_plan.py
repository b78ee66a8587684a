"""Forward passes in bfloat16: fewer digits there, none lost elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.training.small import NAMES, small_method, small_plan, small_tasks
from uclearn.errors import SettingError
from uclearn.training import Plan, learn


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("heads", [True, False], ids=["heads", "one head"])
def test_every_method_learns_about_the_same_with_fewer_digits(name: str, heads: bool) -> None:
    matrices, weights = [], []
    for precision in ("float32", "bfloat16"):
        method = small_method(name, heads)
        plan = small_plan(precision=precision, epochs=6)
        outcome = learn(method, small_tasks(heads, tasks=2), plan)
        assert {p.dtype for p in method.parameters()} == {torch.float32}
        matrices.append(torch.tensor(outcome.accuracy_matrix).nan_to_num())
        weights.append(torch.cat([p.detach().flatten() for p in method.model.parameters()]))
    assert not torch.equal(*weights)  # it did make a difference
    assert (matrices[0].diag() - matrices[1].diag()).abs().max() < 0.15


def test_the_forward_pass_has_fewer_digits_and_the_loss_all() -> None:
    seen: list[torch.dtype] = []

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        seen.append(outputs.dtype)
        return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")

    method = small_method("finetuning")
    inside: set[tuple[bool, torch.dtype]] = set()

    def look(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        inside.add((module.training, output.dtype))

    method.model.get_submodule("trunk").register_forward_hook(look)
    learn(method, small_tasks(tasks=1), small_plan(precision="bfloat16"), loss=loss)
    assert set(seen) == {torch.float32}
    assert inside == {(True, torch.bfloat16), (False, torch.bfloat16)}  # judging, too


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(SettingError, match="`precision` must be one of float32, bfloat16, auto"):
        Plan(precision="float16")  # type: ignore[arg-type]


def test_what_came_later_changes_no_name_that_was_given_before() -> None:
    assert not {"precision", "schedule", "warmup"} & Plan().identity().keys()
    assert Plan(precision="bfloat16").identity()["precision"] == "bfloat16"


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("epochs", 0, "`epochs` must be at least 1, got 0"),
        ("batch_size", 0, "`batch_size` must be at least 1, got 0"),
        ("lr", -1.0, "`lr` must be positive and finite, got -1.0"),
        ("patience", 0, "`patience` must be at least 1, got 0"),
        ("factor", 1.0, "`factor` must be greater than 1, got 1.0"),
        ("optimizer", "adamw", "`optimizer` must be one of adam, sgd, got 'adamw'"),
        ("schedule", "luck", "`schedule` must be one of constant, cosine, one-cycle, got 'luck'"),
        ("warmup", 1.0, "`warmup` must be 0 or greater and less than 1, got 1.0"),
        ("select_by", "luck", "`select_by` must be one of likelihood, penalised, got 'luck'"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(setting: str, value: object, text: str) -> None:
    with pytest.raises(SettingError, match=text):
        Plan(**{setting: value})  # type: ignore[arg-type]
