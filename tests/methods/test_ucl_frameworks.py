"""UCL under Lightning Fabric, Accelerate and torch.compile: the model goes where it always goes,
the method stays beside it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from lightning_fabric import Fabric
from torch import Tensor, nn

from tests.paper_ucl import paper_ucl
from uclearn import UCL
from uclearn.gaussian import Sampling

SAMPLINGS: list[Sampling] = ["weight", "local"]
TASKS = 2
BATCHES = [
    [(torch.randn(16, 6, generator=g), torch.randint(3, (16,), generator=g)) for _ in range(6)]
    for g in [torch.Generator().manual_seed(task) for task in range(TASKS)]
]


def build(sampling: Sampling = "weight") -> UCL:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
    return paper_ucl(net, BATCHES[0][0][0][:1], beta=0.03, sampling=sampling)


def train(
    method: UCL,
    prepare: Callable[[nn.Module, torch.optim.Optimizer], tuple[Any, Any]],
    backward: Callable[[Tensor], None],
) -> UCL:
    """The ten lines of anyone's loop, over two tasks."""
    for batches in BATCHES:
        optimizer = torch.optim.Adam(method.parameter_groups(lr=0.01))
        model, optimizer = prepare(method.model, optimizer)
        for x, y in batches:
            loss = F.cross_entropy(model(x), y) + method.penalty(batch_size=len(x))
            optimizer.zero_grad()
            backward(loss)
            optimizer.step()
        method.end_task()
    return method


def plain_torch(sampling: Sampling) -> UCL:
    return train(build(sampling), lambda model, optimizer: (model, optimizer), Tensor.backward)


def assert_equal(found: UCL, expected: UCL) -> None:
    state = expected.state_dict()
    for name, value in found.state_dict().items():
        assert torch.equal(value, state[name]), name


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_fabric_computes_what_plain_torch_computes(sampling: Sampling) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    assert_equal(
        train(build(sampling), fabric.setup, fabric.backward),
        plain_torch(sampling),
    )


@pytest.fixture(autouse=True)
def _new_accelerator() -> Iterator[None]:
    """Accelerate keeps the settings of the first accelerator of a process."""
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_accelerate_computes_what_plain_torch_computes(sampling: Sampling) -> None:
    accelerator = Accelerator(cpu=True)
    assert_equal(
        train(build(sampling), accelerator.prepare, accelerator.backward),
        plain_torch(sampling),
    )


def test_fabric_in_mixed_precision() -> None:
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    mixed = train(build(), fabric.setup, fabric.backward)
    assert_roughly_equal(mixed, plain_torch("weight"))


def test_accelerate_in_mixed_precision() -> None:
    accelerator = Accelerator(cpu=True, mixed_precision="bf16")
    mixed = train(build(), accelerator.prepare, accelerator.backward)
    assert_roughly_equal(mixed, plain_torch("weight"))


def test_accelerate_gathers_micro_batches() -> None:
    """It divides what `backward` gets by their number, so each adds the penalty of the step."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    method, expected = build(), build()
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    model, prepared = accelerator.prepare(method.model, optimizer)
    for x, y in BATCHES[0][:2]:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y) + method.penalty(batch_size=32)
            accelerator.backward(loss)
            prepared.step()
    optimizer = torch.optim.SGD(expected.parameter_groups(lr=0.1))
    for x, y in BATCHES[0][:2]:
        loss = F.cross_entropy(expected.model(x), y) + expected.penalty(batch_size=32)
        (loss / 2).backward()
    optimizer.step()
    assert_equal(method, expected)


def assert_roughly_equal(found: UCL, expected: UCL) -> None:
    """The same noise, rounded to bfloat16: parameters stay in float32 and stay close."""
    start = build().state_dict()
    for name, value in expected.model.named_parameters():
        other = found.model.get_parameter(name)
        assert other.dtype == torch.float32
        moved = value - start[f"model.{name}"]
        assert (other - value).norm() < 0.2 * moved.norm(), name


@pytest.mark.parametrize(
    "framework", [lambda: Fabric(accelerator="cpu", devices=1), lambda: Accelerator(cpu=True)]
)
def test_what_was_prepared_by_a_framework_can_be_copied_and_exported(
    framework: Callable[[], Any],
) -> None:
    chosen = framework()
    prepare = getattr(chosen, "setup", None) or chosen.prepare
    method = train(build(), prepare, chosen.backward)
    twin, x = copy.deepcopy(method), BATCHES[0][0][0]
    with method.inference() as net, twin.inference() as copied:
        assert torch.equal(net(x), copied(x))
        assert torch.equal(method.export()(x), net(x))


# -- torch.compile: slower, as a compiler runs -------------------------------------------------

# torch's compiler makes an instance of torch's own Function class, which torch deprecates
own_warning = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


@pytest.mark.slow
@own_warning
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_compiled_model_computes_trains_and_draws_as_it_should(sampling: Sampling) -> None:
    """Inside a compiled graph the noise comes from torch's own generator, so it is compared in
    distribution: the output of one node is normal with the variance of its noise."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 4))
    method = paper_ucl(net, torch.zeros(1, 6), sigma=0.3, sampling=sampling)
    compiled = torch.compile(method.model)
    x = torch.randn(1, 6)
    exact = method.model.eval()(x)
    torch.testing.assert_close(compiled(x), exact)

    method.model.train()
    with torch.no_grad():
        draws = torch.cat([compiled(x) for _ in range(2000)]) - exact
    spread = 0.3 * x.norm()
    assert (draws.mean(0).abs() < 4 * spread / 2000**0.5).all()  # 4 standard errors
    assert ((draws.std(0) / spread - 1).abs() < 4 / (2 * 2000) ** 0.5).all()
    assert draws.unique(dim=0).shape[0] == 2000

    method.end_task()
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    (compiled(x).square().sum() + method.penalty(batch_size=1)).backward()
    optimizer.step()
    assert all(p.grad is not None and p.grad.any() for p in method.model.parameters())
    method.beta = 0.0
    assert method.penalty(batch_size=1) > 0


def test_a_compiled_model_may_take_the_models_place() -> None:
    method = build()
    method.model = torch.compile(method.model, backend="eager")  # type: ignore[assignment]
    assert method.penalty(batch_size=1).isfinite()
    method.end_task()
