"""Some models of the zoo, and adapters: taken as they are, held, and exported equal to the bit."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import uclearn
from benchmarks.zoo import look, summary
from benchmarks.zoo_models import entries
from uclearn.gaussian import GaussianLayer
from uclearn.methods.ewc import EWC
from uclearn.methods.ucl.anchors import LayerAnchor

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of transformers and its packages
]

CHOSEN = {
    "bert": 1.0,
    "gpt2": 1.0,
    "llama": 1.0,
    "gemma": 0.99,
    "opt": 1.0,
    "mixtral": 0.2,  # its experts are one tensor, held by itself
    "t5": 0.99,
    "vit": 0.97,
    "clip": 0.99,
    "TransformerEncoder": 0.5,
    "LSTM": 0.1,
}
"""By name what share of the weights at least is held by nodes; all of them are held."""


@pytest.mark.parametrize("name", list(CHOSEN))
def test_a_model_that_nobody_here_wrote(name: str) -> None:
    entry = next(each for each in entries() if each.name == name)
    found = look(entry)
    assert found.get("error") is None
    assert found["held"] == 1
    assert found["by_nodes"] >= CHOSEN[name]
    assert found["exports_equal"]
    assert summary([found])["hold_95"] == 1


def adapted(kind: str) -> tuple[Any, dict[str, Any]]:
    pytest.importorskip("peft", reason="peft is not installed")
    torch.manual_seed(0)
    entry = next(each for each in entries() if each.name == f"bert with {kind}")
    return entry.build()


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_of_an_adapted_model_only_the_adapter_is_converted_and_held(kind: str) -> None:
    model, example = adapted(kind)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    method = uclearn.UCL(model, example)
    noisy = {n for n, m in method.model.named_modules() if isinstance(m, GaussianLayer)}
    assert noisy
    assert all(name.rpartition(".lora_")[1] or "classifier" in name for name in noisy)
    held = 0
    for anchor in method.held:
        assert isinstance(anchor, LayerAnchor)
        held += sum(anchor.get_buffer(kept).numel() for kept in anchor.names.values())
    assert held == sum(p.numel() for name, p in model.named_parameters() if name in trained)
    assert method.coverage().share == 1


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_an_adapter_is_merged_after_export_as_it_would_be_without(kind: str) -> None:
    model, example = adapted(kind)
    method = uclearn.UCL(model, example)
    optimizer = torch.optim.Adam(method.parameter_groups(lr=1e-2))
    for _ in range(3):
        loss = method.model(**example).logits.square().mean() + method.penalty(batch_size=2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    method.end_task()
    plain = method.export()
    with torch.no_grad():
        before = copy.deepcopy(model).eval()(**example).logits
        there = plain(**example).logits
        merged = plain.merge_and_unload().eval()(**example).logits  # type: ignore[operator]
    assert not torch.allclose(before, there, atol=1e-4)
    assert torch.allclose(merged, there, atol=1e-5)


def test_what_has_no_nodes_at_all_is_taken_too() -> None:
    """IA3 trains scales alone, on frozen layers: nothing there could be uncertain, but held."""
    model, example = adapted("ia3")
    del model.base_model.model.classifier
    model.base_model.model.classifier = torch.nn.Identity()
    ours = uclearn.UCL(model, example)
    assert not ours.sigmas()
    assert ours.coverage().by_themselves == ours.coverage().total > 0
    ours.model(**example)
    ours.penalty(batch_size=2)
    ours.end_task()
    before = float(ours.penalty(batch_size=1).detach())
    with torch.no_grad():
        for parameter in ours.model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1)
    assert float(ours.penalty(batch_size=1).detach()) > before
    method = EWC(model)
    method.end_task(losses=lambda: iter([method.model(**example).logits.square().mean(1)]))
    assert any(bool(each.any()) for each in method.memory.importance.tensors())
