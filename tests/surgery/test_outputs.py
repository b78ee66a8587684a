"""New classes for one output layer: the old weights stay what they are, to the bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.live.months import PLAN, accuracy, learner, month, state
from uclearn.errors import UnsupportedLayerError
from uclearn.live.learner import Learner
from uclearn.methods.contract import Method
from uclearn.methods.facts import Facts
from uclearn.networks import mlp, run
from uclearn.surgery.outputs import add_outputs, grow_outputs, output_layer, resize_to, sizes

METHODS = ["finetuning", "ucl", "ewc", "si", "mas", "rwalk", "hat", "lwf", "ucl+replay"]


def grown(ours: Learner, outputs: int):  # type: ignore[no-untyped-def]
    draw = torch.Generator().manual_seed(0)
    return add_outputs(ours.method, ours._blank, ours.example, outputs, ours._build, draw)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_old_outputs_are_the_same(name: str) -> None:
    settings: dict[str, Any] = {"tasks": 3} if name == "hat" else {}
    ours = learner(name, outputs=2, **settings)
    ours.learn(month(0), "january")
    larger, x = grown(ours, 4), month(1)[0]
    with ours.method.inference(0) as small, larger.inference(0) as large, torch.no_grad():
        before, after = run(small, x), run(large, x)
    assert after.shape[-1] == 4
    torch.testing.assert_close(before, after[..., :2])
    assert after[..., 2:].abs().sum() > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ucl", "ewc", "si", "mas", "rwalk", "vcl"])
def test_what_is_remembered_of_old_outputs_stays_and_new_ones_are_free(name: str) -> None:
    ours = learner(name, outputs=2)
    ours.learn(month(0), "january")
    before, after = state(ours), grown(ours, 4).state_dict()
    fresh = Learner(mlp(4, (12,), 4), name, example=ours.example).method.state_dict()
    assert before.keys() == after.keys()
    for key, old in before.items():
        assert torch.equal(after[key][tuple(slice(n) for n in old.shape)], old)
        # as built: importance, bias; a sigma by rule follows weights that `fresh` does not share
        apart = ("weight", "rho", "sigma") if name == "ucl" else ("weight",)
        if old.dim() and after[key].shape != old.shape and not any(part in key for part in apart):
            assert torch.equal(after[key][2:], fresh[key][2:])


@pytest.mark.slow
def test_new_outputs_are_as_uncertain_as_the_old_ones_were_in_the_beginning() -> None:
    ours = learner("ucl", outputs=2)
    ours.learn(month(0), "january")
    larger = grown(ours, 4)
    *_, last = larger.strengths().values()
    torch.testing.assert_close(last[2:], torch.ones(2))
    assert last[:2].max() > 1.5  # the month made the old ones certain


@pytest.mark.slow
def test_classes_are_added_where_what_was_seen_is_kept_in_other_blocks_then() -> None:
    """100 inputs of a layer: two blocks of 50 for 2 outputs, one of 100 for 100."""
    ours = Learner(mlp(4, (100,), 2), "ucl", plan=PLAN)
    ours.learn(month(0), "january")
    x, y = month(1)
    key = "held.1.seen.blocks"
    blocks, wide = ours.method.state_dict()[key], grown(ours, 100).state_dict()[key]
    assert (blocks.shape, wide.shape) == ((1, 2, 50, 50), (1, 1, 100, 100))
    torch.testing.assert_close(wide[0, 0], torch.block_diag(*blocks[0]))
    ours.learn((x, y), "february", classes=100)
    assert ours.predict(x).probabilities.shape[1] == 100


def test_a_class_that_comes_later_is_learned_and_the_old_ones_are_not_lost() -> None:
    stream = torch.Generator().manual_seed(0)
    centres = torch.tensor([[3.0, 0, 0, 0], [-3, 0, 0, 0], [0, 3, 0, 0]])
    labels = torch.arange(300) % 3
    x = centres[labels] + 0.5 * torch.randn(300, 4, generator=stream)
    ours = Learner(mlp(4, (12,), 2), "ucl+replay", plan=PLAN)
    ours.learn((x[labels < 2], labels[labels < 2]), "two")
    update = ours.learn((x[labels == 2], labels[labels == 2]), "third", classes=3)
    assert update.classes == 3
    assert accuracy(ours, x, labels) > 0.95


def test_a_network_that_does_not_end_in_a_linear_layer_says_what_to_do() -> None:
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2), nn.Tanh())
    ours = Learner(network, "finetuning", plan=PLAN)
    x, y = month(0)
    with pytest.raises(
        UnsupportedLayerError,
        match=r"Classes can be added where the network ends in a Linear layer; here it does not.*"
        "uclearn.networks.MultiHead",
    ):
        ours.learn((x, y + 1), "january", classes=3)


def test_the_output_layer_is_found_by_what_it_makes() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last, self.first = nn.Linear(3, 2), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            output: Tensor = self.last(self.first(x))
            return output

    assert output_layer(Own(), torch.zeros(1, 4)) == "last"


class Shrinking(Method):
    """Remembers something that is smaller for a larger network."""

    facts = Facts()

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        outputs = len(list(model.parameters())[-1])
        self.register_buffer("left", torch.zeros(10 - outputs))


def test_a_method_whose_memory_does_not_fit_says_so() -> None:
    network, draw = mlp(4, (12,), 2), torch.Generator()
    strange, example = Shrinking(network), torch.zeros(1, 4)
    with pytest.raises(UnsupportedLayerError, match="Classes cannot be added under Shrinking"):
        add_outputs(strange, network, example, 3, Shrinking, draw)
    with pytest.raises(UnsupportedLayerError, match="under Shrinking cannot be widened"):
        grow_outputs(strange, 3, example, draw)
    assert len(network[2].bias) == 2  # type: ignore[index]


def test_resizing_keeps_what_was_there() -> None:
    network = mlp(3, (4,), 2)
    wanted = sizes(mlp(3, (6,), 2))
    before = [p.detach().clone() for p in network.parameters()]
    resize_to(network, wanted)
    assert sizes(network) == wanted
    assert network[0].out_features == 6  # type: ignore[index]
    assert network[2].in_features == 6  # type: ignore[index]
    for old, new in zip(before, network.parameters(), strict=True):
        assert torch.equal(new[tuple(slice(n) for n in old.shape)], old)
        assert float(new.detach().sum()) == pytest.approx(float(old.sum()), abs=1e-6)
