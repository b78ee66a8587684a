"""What UCL refuses, and in which words: argument, constraint, value, remedy; nothing half-done."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from uclearn import UCL, UclearnError
from uclearn.errors import SettingError, TaskError, UnsupportedLayerError

X = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
Y = torch.arange(8) % 2


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


def after_one_task() -> UCL:
    method = paper_ucl(mlp(), X[:1])
    method.end_task()
    return method


def message(error: type[Exception], **settings: Any) -> str:
    with pytest.raises(error) as caught:
        paper_ucl(mlp(), **{"example": X[:1], **settings})
    assert isinstance(caught.value, UclearnError)
    return str(caught.value)


# -- settings ----------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [-0.1, math.nan, math.inf])
def test_beta(beta: float) -> None:
    assert message(SettingError, beta=beta) == (
        f"`beta` must be 0 or greater and finite, got {beta}. It weighs the term that moves the "
        "uncertainties; the paper uses 0.00001 to 0.03."
    )


@pytest.mark.parametrize("alpha", [-1.0, math.nan, math.inf])
def test_alpha(alpha: float) -> None:
    assert message(SettingError, alpha=alpha) == (
        f"`alpha` must be 0 or greater and finite, got {alpha}. It weighs the pull towards the "
        "initial means while the first task is learned; the paper uses 0.01 to 5."
    )


@pytest.mark.parametrize("ratio", [-0.5, 0.0, 1.0, 1.5, math.nan])
def test_ratio(ratio: float) -> None:
    assert message(SettingError, ratio=ratio) == (
        f"`ratio` must lie strictly between 0 and 1, got {ratio}. It is the share of the initial "
        "variance given to noise."
    )


@pytest.mark.parametrize("sigma", [-0.06, 0.0, math.nan, math.inf])
def test_sigma(sigma: float) -> None:
    assert message(SettingError, sigma=sigma) == (
        f"`sigma` must be positive and finite, got {sigma}. It is the initial standard deviation "
        "of every weight; the paper uses 0.06."
    )


def test_both_sigma_and_ratio() -> None:
    assert message(SettingError, sigma=0.06, ratio=0.5) == (
        "Give either `sigma` or `ratio`, not both and not neither: got sigma=0.06, ratio=0.5. "
        "`sigma` is one initial standard deviation for all layers, `ratio` the share of each "
        "layer's initial variance given to noise."
    )


def test_hold() -> None:
    said = message(SettingError, hold="nodes")
    assert said == "`hold` must be one of outputs, weights, got 'nodes'."


@pytest.mark.parametrize("lr_sigma", [-0.1, 0.0, math.nan])
def test_lr_sigma(lr_sigma: float) -> None:
    assert message(SettingError, lr_sigma=lr_sigma) == (
        f"`lr_sigma` must be positive, got {lr_sigma}. It is the learning rate of the "
        "uncertainties; None takes that of the means, 'auto' suits the length of tasks."
    )


@pytest.mark.parametrize(
    ("setting", "choices"),
    [
        ("sampling", "weight, local"),
        ("means", "keep, draw"),
        ("noise", "table, fresh"),
        ("batch_norm", "shared, per-task, frozen"),
    ],
)
def test_a_choice_that_there_is_not(setting: str, choices: str) -> None:
    text = message(SettingError, **{setting: "other"})
    assert text.startswith(f"`{setting}` must be one of {choices}, got 'other'.")


# -- the model ---------------------------------------------------------------------------------


def test_a_name_in_plain_that_there_is_not() -> None:
    assert message(UnsupportedLayerError, plain=["head"]) == (
        "This model cannot be converted as it is:\n"
        "- head: named in `plain`, but the model has no such module or parameter."
    )


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.ReLU(), nn.Flatten()),
        nn.Sequential(nn.BatchNorm1d(4)),
        mlp().requires_grad_(False),
    ],
    ids=["no weights", "a norm alone", "all frozen"],
)
def test_a_model_without_convertible_layers(net: nn.Module) -> None:
    with pytest.raises(UnsupportedLayerError) as caught:
        paper_ucl(net, X)
    assert str(caught.value).startswith(
        "This model has no layer that could be made Gaussian. Known layers: Linear, Conv1d, "
    )
    assert str(caught.value).endswith(
        "Frozen layers (requires_grad=False) and those named in `plain` do not count."
    )


def test_all_layers_that_cannot_be_handled_are_named() -> None:
    net = nn.Sequential(nn.Linear(4, 6), nn.LazyLinear(6), nn.LazyConv1d(6, 2))
    with pytest.raises(UnsupportedLayerError) as caught:
        paper_ucl(net, X)
    assert "- 1 (LazyLinear): has no weights yet" in str(caught.value)
    assert "- 2 (LazyConv1d): has no weights yet" in str(caught.value)


# -- the example -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "got", "said"),
    [
        (torch.zeros(1, 5), "(1, 5)", "mat1 and mat2 shapes cannot be multiplied"),
        (torch.zeros(1, 4).double(), "(1, 4)", "must have the same dtype"),
        (torch.zeros(1, 4).long(), "(1, 4)", "dtype"),
        (None, "NoneType", "linear"),
        ([0.0] * 4, "list", "linear"),
        ((), "tuple", "missing 1 required positional argument"),
        ((X, X), "tuple", "takes 2 positional arguments but 3 were given"),
    ],
    ids=["width", "precision", "integers", "None", "list", "no arguments", "too many arguments"],
)
def test_an_example_that_the_model_does_not_accept(example: Any, got: str, said: str) -> None:
    text = message(SettingError, example=example)
    assert text.startswith(
        f"`example` must be a batch that the model accepts, such as x[:1], got {got}. "
        "The model said: "
    )
    assert said in text


@pytest.mark.parametrize("example", [torch.zeros(0, 4), torch.tensor(1.0), (torch.zeros(0, 4),)])
def test_an_empty_example(example: Any) -> None:
    assert message(SettingError, example=example).startswith(
        "`example` must hold at least one input, got shape ("
    )


# -- the step ----------------------------------------------------------------------------------


def test_a_missing_batch_size() -> None:
    method = after_one_task()
    with pytest.raises(TaskError) as caught:
        method.penalty()
    assert str(caught.value) == (
        "`batch_size` is needed here: the penalty is divided by the examples of one step. Pass it "
        "as a keyword, `batch_size=...`, or in the step."
    )


@pytest.mark.parametrize("size", [0, -3, 0.5, math.nan])
@pytest.mark.parametrize("hook", ["penalty", "adjust_gradients"])
def test_a_batch_size_below_one(size: Any, hook: str) -> None:
    method = after_one_task()
    method.closed_form = True
    with pytest.raises(SettingError) as caught:
        getattr(method, hook)(batch_size=size)
    assert str(caught.value) == (
        f"`batch_size` must be at least 1, got {size}. It counts the examples behind one move of "
        "the optimiser, over all micro-batches and processes."
    )


# -- a loss that is not finite -----------------------------------------------------------------


def train_once(method: UCL, factor: float) -> None:
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    optimizer.zero_grad()
    loss = factor * F.cross_entropy(method.model(X), Y) + method.penalty(batch_size=8)
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_after_a_loss_that_is_not_finite_the_penalty_says_so(factor: float) -> None:
    method = after_one_task()
    train_once(method, factor)
    with pytest.raises(TaskError) as caught:
        method.penalty(batch_size=8)
    assert str(caught.value) == (
        "The penalty is nan: some weights are not finite, or have moved too far to be squared. "
        "The loss became NaN or infinite in an earlier step; lower the learning rate or clip "
        "gradients."
    )


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_after_a_loss_that_is_not_finite_a_task_cannot_end(factor: float) -> None:
    """The memory, and how firmly it holds, stay as the task before left them."""
    method = after_one_task()
    good = copy.deepcopy(method.state_dict())
    train_once(method, factor)
    with pytest.raises(TaskError) as caught:
        method.end_task()
    text = str(caught.value)
    assert text.startswith("Cannot end the task: these parameters are not finite: 0.weight, ")
    assert text.endswith(
        "The loss became NaN or infinite; lower the learning rate, clip gradients, or load the "
        "last good state. What earlier tasks left is unchanged."
    )
    memory = {name: value for name, value in method.state_dict().items() if "model" not in name}
    del memory["_extra_state"]  # noise was drawn
    assert all(torch.equal(value, good[name]) for name, value in memory.items())
    method.load_state_dict(good)  # the remedy
    train_once(method, 1.0)
    method.end_task()
    assert method.tasks_done == 2


def test_a_plain_head_that_is_not_finite_is_found_too() -> None:
    method = paper_ucl(mlp(), X[:1], plain=["2"])
    with torch.no_grad():
        method.model.get_parameter("2.bias")[0] = torch.inf
    with pytest.raises(TaskError, match=r"these parameters are not finite: 2\.bias\."):
        method.end_task()
    assert method.tasks_done == 0


def test_weights_that_moved_too_far_to_be_squared() -> None:
    method = after_one_task()
    with torch.no_grad():
        method.model.get_parameter("0.weight").fill_(1e30)
    with pytest.raises(TaskError, match=r"The penalty is (inf|nan): .* moved too far"):
        method.penalty(batch_size=1)


# -- a model that was changed ------------------------------------------------------------------


class Blocks(nn.Module):
    """A layer within a block within the model."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6))
        self.last = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.block(x))
        return y


def replace_layer(method: UCL) -> None:
    method.model.last = nn.Linear(6, 2)


def replace_norm(method: UCL) -> None:
    method.model.get_submodule("block")[1] = nn.LayerNorm(6)  # type: ignore[operator]


def replace_block(method: UCL) -> None:
    method.model.block = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6))


def remove_layer(method: UCL) -> None:
    del method.model.last


def replace_model(method: UCL) -> None:
    method.model = Blocks()


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        (replace_layer, "last"),
        (replace_norm, "block.1"),
        (replace_block, "block.0, block.1"),
        (remove_layer, "last"),
        (replace_model, "block.0, last, block.1"),
    ],
)
@pytest.mark.parametrize("word", ["penalty", "adjust_gradients", "end_task"])
def test_a_model_that_was_changed_is_noticed(change: Any, gone: str, word: str) -> None:
    method = paper_ucl(Blocks(), X[:1], closed_form=True)
    change(method)
    with pytest.raises(TaskError) as caught:
        getattr(method, word)(**({} if word == "end_task" else {"batch_size": 1}))
    assert str(caught.value) == (
        f"The model no longer holds these layers that the method was built with: {gone}. What "
        "stands in their place is not held. Change the model first and build a new method from it."
    )
    assert method.tasks_done == 0


def test_a_wrapped_layer_is_still_held() -> None:
    method = paper_ucl(Blocks(), X[:1])
    method.model.last = nn.Sequential(method.model.last, nn.Identity())  # type: ignore[arg-type]
    assert method.penalty(batch_size=1).isfinite()
