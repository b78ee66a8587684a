"""Everything UCL knows is in its state_dict: it can be saved, copied, moved and counted."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from uclearn import UCL
from uclearn.errors import CheckpointError
from uclearn.gaussian import NoiseKind, Sampling
from uclearn.networks import MultiHead
from uclearn.tasks import Data, Task

X = torch.randn(32, 1, 6, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(32) % 3


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 8),
        nn.LayerNorm(8),
        nn.Linear(8, 3),
    )


def build(sampling: Sampling = "local", noise: NoiseKind = "table", seed: int = 0) -> UCL:
    torch.manual_seed(seed)
    return paper_ucl(
        network(),
        X[:1],
        beta=0.03,
        noisy_bias=True,
        sampling=sampling,
        noise=noise,
        batch_norm="per-task",
        seed=seed,
    )


def train(method: UCL, steps: int = 3) -> None:
    optimizer = torch.optim.Adam(method.parameter_groups(lr=0.01))
    dtype = next(method.model.parameters()).dtype
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(method.model(X.to(dtype)), Y)
        (loss + method.penalty(batch_size=len(X))).backward()
        optimizer.step()


def in_the_third_task(sampling: Sampling = "local", noise: NoiseKind = "table") -> UCL:
    method = build(sampling, noise)
    for _ in range(2):
        train(method)
        method.end_task(inputs=X.split(8))
    train(method)
    return method


def assert_same_future(found: UCL, expected: UCL) -> None:
    """Bit for bit: penalty, predictions, the next noise, and where training leads."""
    assert torch.equal(found.penalty(batch_size=4), expected.penalty(batch_size=4))
    for task in (None, 0, 1):
        with found.inference(task) as ours, expected.inference(task) as theirs:
            assert torch.equal(ours(X), theirs(X))
    assert torch.equal(found.model(X), expected.model(X))
    for method in (found, expected):
        train(method)
        method.end_task(inputs=X.split(8))
        train(method)
    assert_same_state(found, expected)


def assert_same_state(found: UCL, expected: UCL) -> None:
    ours, theirs = found.state_dict(), expected.state_dict()
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


# -- saving and loading ------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["table", "fresh"])
@pytest.mark.parametrize("sampling", ["weight", "local"])
def test_a_state_goes_through_a_file_into_a_new_method(
    tmp_path: Path, sampling: Sampling, noise: NoiseKind
) -> None:
    method = in_the_third_task(sampling, noise)
    save_file(method.state_dict(), tmp_path / "state.safetensors")
    other = build(sampling, noise, seed=5)
    other.load_state_dict(load_file(tmp_path / "state.safetensors"))
    assert_same_future(other, method)


def test_the_state_is_plain_tensors() -> None:
    assert all(isinstance(value, Tensor) for value in in_the_third_task().state_dict().values())


def test_a_state_returns_to_where_it_was_taken() -> None:
    """As a trainer does that restores the best epoch."""
    method = in_the_third_task()
    best = copy.deepcopy(method.state_dict())
    twin = copy.deepcopy(method)
    train(method)
    method.load_state_dict(best)
    assert_same_future(method, twin)


def test_loading_restores_how_firmly_weights_are_held() -> None:
    """Strengths are worked out anew: without that, the first penalty after loading is wrong."""
    method, other = in_the_third_task(), build()
    before = other.penalty(batch_size=1).item()
    other.load_state_dict(method.state_dict())
    assert other.penalty(batch_size=1).item() == method.penalty(batch_size=1).item() != before


def test_a_pretrained_state_loads_into_the_model() -> None:
    """`weight` is the mean; the uncertainties stay as they were."""
    plain, method = network(), build(seed=3)
    before = method.sigmas()
    method.model.load_state_dict(plain.state_dict())
    assert torch.equal(method.model.eval()(X), plain.eval()(X))
    assert all(torch.equal(sigma, before[name]) for name, sigma in method.sigmas().items())


def test_heads_that_were_added_come_back() -> None:
    def with_heads() -> UCL:
        return paper_ucl(MultiHead(nn.Sequential(nn.Linear(4, 6), nn.ReLU()), 6), torch.zeros(1, 4))

    method, x = with_heads(), torch.randn(5, 4)
    for index, classes in enumerate((3, 2)):
        data = Data(x, torch.zeros(5, dtype=torch.int64))
        method.begin_task(Task("a", index, data, classes=classes))
        method.end_task()
    with torch.no_grad():
        method.model.get_parameter("heads.1.weight").add_(1.0)
    other = with_heads()
    other.load_state_dict(method.state_dict())
    with method.inference(1) as ours, other.inference(1) as theirs:
        assert torch.equal(ours(x, task=1), theirs(x, task=1))


# -- a state that does not fit -----------------------------------------------------------------


def other_states() -> dict[str, dict[str, Tensor]]:
    wider = network()
    wider[4], wider[5], wider[6] = nn.Linear(64, 9), nn.LayerNorm(9), nn.Linear(9, 3)
    longer = network().extend([nn.ReLU(), nn.Linear(3, 3)])
    fitting = build().state_dict()
    return {
        "a wider network": paper_ucl(wider, X[:1], noisy_bias=True).state_dict(),
        "a longer network": paper_ucl(longer, X[:1], noisy_bias=True).state_dict(),
        "other settings": paper_ucl(network(), X[:1], noisy_bias=False).state_dict(),
        "a plain network": network().state_dict(),
        "one tensor missing": {k: v for k, v in fitting.items() if k != "held.0.weight"},
        "one tensor too many": {**fitting, "model.9.weight": torch.zeros(1)},
        "a strange stream of noise": {**fitting, "_extra_state": torch.zeros(3)},
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", other_states())
def test_a_state_that_does_not_fit_changes_nothing(kind: str) -> None:
    method = in_the_third_task()
    twin = copy.deepcopy(method)
    with pytest.raises(CheckpointError) as caught:
        method.load_state_dict(other_states()[kind])
    assert str(caught.value).startswith(
        "`state_dict` must come from a UCL that was built from the same network with the same "
        "settings. Nothing was loaded, because of this difference: "
    )
    assert_same_state(method, twin)
    assert_same_future(method, twin)


# -- copies ------------------------------------------------------------------------------------


def test_a_copy_is_equal_and_independent() -> None:
    method = in_the_third_task()
    first, second = copy.deepcopy(method), copy.deepcopy(method)
    assert_same_future(first, second)
    assert_same_state(method, in_the_third_task())  # nothing of that has reached the original
    assert_same_future(method, in_the_third_task())


def test_loading_into_a_copy_leaves_the_original_alone() -> None:
    method = in_the_third_task()
    penalty = method.penalty(batch_size=1)
    copy.deepcopy(method).load_state_dict(build(seed=4).state_dict())
    assert torch.equal(method.penalty(batch_size=1), penalty)
    other = copy.deepcopy(build(seed=4))
    other.load_state_dict(method.state_dict())
    assert torch.equal(other.penalty(batch_size=1), penalty)


# -- precision ---------------------------------------------------------------------------------


def test_a_method_moves_to_double_precision_with_all_it_remembers() -> None:
    method = in_the_third_task()
    single = method.penalty(batch_size=1)
    with method.inference(0) as net:
        predicted = net(X)
    method.to(torch.float64)
    double = method.penalty(batch_size=1)
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single)
    with method.inference(0) as net:
        torch.testing.assert_close(net(X.double()).float(), predicted)
    train(method)
    method.end_task(inputs=X.double().split(8))
    assert {t.dtype for t in method.state_dict().values()} == {torch.float64, torch.int64}


def test_statistics_of_a_double_precision_model_are_saved_in_double_precision() -> None:
    method, other = (
        paper_ucl(network().double(), X[:1].double(), batch_norm="per-task") for _ in range(2)
    )
    method.end_task(inputs=X.double().split(8))
    other.load_state_dict(method.state_dict())
    assert other.statistics.per_task.dtype == torch.float64
    assert_same_state(other, method)


# -- what it costs to keep ---------------------------------------------------------------------

PAPERS_MLP = (784, 400, 400, 10)
SCALARS = ("drift_weight", "freeze_weight", "tasks_done", "initial", "_extra_state")


def papers_mlp() -> nn.Sequential:
    first, second, third, fourth = PAPERS_MLP
    return nn.Sequential(
        nn.Linear(first, second),
        nn.ReLU(),
        nn.Linear(second, third),
        nn.ReLU(),
        nn.Linear(third, fourth),
    )


@pytest.mark.parametrize(("noisy_bias", "kept"), [(True, 960_060), (False, 958_440)])
def test_what_is_kept_is_what_the_paper_counts(noisy_bias: bool, kept: int) -> None:
    """Table 1, Permuted MNIST: 960K = 2 * (478,410 weights and biases + 810 nodes + 810 biases);
    without a sigma per bias 2 * (478,410 + 810). Means, sigmas, and both as they were before."""
    method = paper_ucl(papers_mlp(), torch.zeros(1, 784), noisy_bias=noisy_bias)
    method.end_task()
    state = method.state_dict()
    counted = {name: t for name, t in state.items() if not name.endswith(SCALARS)}
    assert sum(tensor.numel() for tensor in counted.values()) == kept
    few = {name: tensor.numel() for name, tensor in state.items() if name not in counted}
    assert max(few.values()) <= 2
    assert len(few) == 4 + 3  # of the method, and the initial sigma of each layer


def test_beyond_the_previous_means_at_most_four_numbers_per_node_are_kept() -> None:
    plain = papers_mlp()
    weights = sum(parameter.numel() for parameter in plain.parameters())
    method = paper_ucl(plain, torch.zeros(1, 784), noisy_bias=True)
    for _ in range(3):
        method.end_task()  # and it does not grow
    everything = sum(tensor.numel() for tensor in method.state_dict().values())
    nodes = sum(PAPERS_MLP[1:])
    assert everything - 2 * weights <= 4 * nodes + 10


def test_nothing_else_of_the_size_of_the_weights_stays_in_memory() -> None:
    """Not in attributes either: what is worked out from the state is one vector per side."""
    method = paper_ucl(papers_mlp(), torch.zeros(1, 784))
    method.end_task()
    method.penalty(batch_size=1).backward()
    method.zero_grad()
    known = {tensor.data_ptr() for tensor in method.state_dict().values()}
    found = [
        tensor
        for held in method.held
        for each in held.anchored  # type: ignore[union-attr]
        for tensor in each.grip
        if tensor is not None and tensor.data_ptr() not in known
    ]
    assert max(tensor.numel() for tensor in found) <= max(PAPERS_MLP)
