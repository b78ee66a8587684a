"""A callback for Lightning's trainer, run for real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import uclearn
from uclearn.errors import CheckpointError
from uclearn.methods.contract import Method
from uclearn.methods.si import SI

lightning = pytest.importorskip("pytorch_lightning", reason="pytorch-lightning is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of the trainer and its packages
]

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def ucl() -> uclearn.UCL:
    return uclearn.UCL(net(), X[:1], lr_sigma=0.01)


class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
    def __init__(self, method: Method) -> None:
        super().__init__()
        self.network, self.groups = method.model, method.parameter_groups(lr=0.1)

    def training_step(self, batch: Tensor) -> Tensor:
        with uclearn.gaussian.use_means(self.network):
            mean: Tensor = self.network(batch).square().mean()
        return mean

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.groups)


def fit(
    method: Method, folder: Path, *, epochs: int = 1, start: Path | None = None, also: Any = ()
) -> Any:
    from uclearn.integrations.lightning import ContinualCallback

    trainer = lightning.Trainer(
        max_epochs=epochs,
        accumulate_grad_batches=2,
        callbacks=[ContinualCallback(method, batch_size=8), *also],
        default_root_dir=folder,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Module(method), DataLoader(X, batch_size=4), ckpt_path=start, weights_only=False)  # type: ignore[arg-type]
    return trainer


def by_hand(method: Method) -> None:
    optimizer = torch.optim.SGD(method.parameter_groups(lr=0.1))
    for half in X.chunk(2):
        with uclearn.gaussian.use_means(method.model):
            loss = sum(method.model(piece).square().mean() for piece in half.chunk(2)) / 2
        (loss + method.penalty(batch_size=8)).backward()
        method.adjust_gradients(batch_size=8)
        optimizer.step()
        method.end_step(batch_size=8)
        optimizer.zero_grad()


@pytest.mark.parametrize("make", [ucl, lambda: SI(net())], ids=["ucl", "si"])
def test_the_trainer_learns_what_a_loop_learns_by_hand(make: Any, tmp_path: Path) -> None:
    first, second = make(), make()
    for _ in range(2):
        by_hand(first)
        first.end_task(inputs=[X])
        fit(second, tmp_path)
        second.end_task(inputs=[X])
    for (name, one), other in zip(
        first.state_dict().items(), second.state_dict().values(), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-6), name


def test_checkpoints_hold_what_is_remembered(tmp_path: Path) -> None:
    method = ucl()
    fit(method, tmp_path)
    method.end_task(inputs=[X])
    trainer = fit(method, tmp_path)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    again = ucl()
    fit(again, tmp_path, start=tmp_path / "last.ckpt")
    assert int(again.tasks_done) == 1
    penalties = [float(each.penalty(batch_size=1)) for each in (method, again)]
    assert penalties[0] == pytest.approx(penalties[1])
    with pytest.raises(CheckpointError, match="must come from the same model, method and settings"):
        fit(uclearn.UCL(net(), X[:1], hold="weights"), tmp_path, start=tmp_path / "last.ckpt")


@pytest.mark.parametrize("mode", ["reject", "warn"])
def test_a_gate_takes_an_update_back_that_ruins_what_was_known(mode: Any, tmp_path: Path) -> None:
    """All outputs are drawn to 0, and with them what the network says about the canary."""
    from uclearn.integrations.guard import Guard
    from uclearn.integrations.lightning import GateCallback

    method = SI(net())
    canary = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    labels = method.model(canary).argmax(1)
    guard = Guard(method, uclearn.Gate(max_drop=0.02, mode=mode), {"before": (canary, labels)})
    before = [parameter.detach().clone() for parameter in method.model.parameters()]
    fit(method, tmp_path, epochs=20, also=[GateCallback(guard)])
    kept = all(map(torch.equal, before, method.model.parameters()))
    assert guard.passed is (mode == "warn")
    assert kept is (mode == "reject")
    assert "Task 'before' went from 100.0%" in guard.reason
