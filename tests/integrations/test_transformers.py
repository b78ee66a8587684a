"""A `transformers.Trainer` that remembers, run for real on a small BERT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import uclearn
from uclearn.errors import CheckpointError
from uclearn.methods.contract import Method
from uclearn.methods.ewc import EWC

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of the trainer and its packages
]


def bert() -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        num_labels=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.BertForSequenceClassification(config)


def examples(seed: int, count: int = 32) -> list[dict[str, Any]]:
    """Is the first word one of the first half?"""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(1, 30, (count, 6), generator=generator)
    return [{"input_ids": row, "labels": int(row[0] > 15)} for row in words]


def batch() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.stack([each["input_ids"] for each in examples(0, 2)])}


def ucl() -> uclearn.UCL:
    return uclearn.UCL(bert(), batch())


def trainer(method: Method, folder: Path, **settings: Any) -> Any:
    from uclearn.integrations.transformers import ContinualTrainer

    usual = {"max_steps": 4, "save_strategy": "no", "per_device_train_batch_size": 4}
    usual["learning_rate"] = 1e-3
    args = transformers.TrainingArguments(
        output_dir=str(folder),
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        **{**usual, **settings},
    )
    return ContinualTrainer(method=method, args=args, train_dataset=examples(1))


def test_two_tasks_are_learned_and_held_and_exported(tmp_path: Path) -> None:
    method = ucl()
    learner = trainer(method, tmp_path, gradient_accumulation_steps=2)
    learner.train()
    assert float(method.steps_taken[1]) == 4  # moves, not micro-batches
    learner.end_task()
    assert int(method.tasks_done) == 1
    held = {name: buffer.clone() for name, buffer in method.held[0].named_buffers()}
    learner.train_dataset = examples(2)
    learner.train()
    assert torch.equal(held["weight"], method.held[0].get_buffer("weight"))
    assert float(method.penalty(batch_size=8)) > 0
    plain = method.export()
    assert type(plain) is transformers.BertForSequenceClassification
    with method.inference() as network:
        assert torch.equal(plain(**batch()).logits, network(**batch()).logits)


def test_a_strong_hold_keeps_the_weights_where_they_were(tmp_path: Path) -> None:
    moved = []
    for strength in (0.0, 300.0):
        method = EWC(bert(), strength=strength)
        learner = trainer(method, tmp_path, optim="sgd", max_steps=16, learning_rate=5e-3)
        learner.train()
        learner.end_task()
        importance = method.memory.importance.tensors()
        assert any(bool(each.any()) for each in importance)
        before = [p.detach().clone() for p in method.memory.weights()]
        learner.train_dataset = examples(2)
        learner.train()
        after = zip(method.memory.weights(), before, importance, strict=True)
        moved.append(sum(float((f * (a - b).square()).sum()) for a, b, f in after))
    assert moved[1] < moved[0] * 0.7


def test_what_is_remembered_is_in_the_trainers_checkpoints(tmp_path: Path) -> None:
    """Going on from a checkpoint ends where going through ends."""
    through = _two_tasks(tmp_path / "through", stop_at=None)
    resumed = _two_tasks(tmp_path / "resumed", stop_at=2)
    for (name, one), other in zip(
        through.state_dict().items(), resumed.state_dict().values(), strict=True
    ):
        assert torch.allclose(one, other, atol=1e-6), name


def _two_tasks(folder: Path, stop_at: int | None) -> uclearn.UCL:
    method = ucl()
    learner = trainer(method, folder, save_strategy="steps", save_steps=2, seed=1)
    learner.train()
    learner.end_task()
    learner.train_dataset = examples(2)
    learner.train()
    if stop_at is None:
        return method
    again = ucl()  # a new process knows nothing but the checkpoint
    learner = trainer(again, folder, save_strategy="steps", save_steps=2, seed=1)
    learner.train_dataset = examples(2)
    learner.train(resume_from_checkpoint=str(folder / f"checkpoint-{stop_at}"))
    assert int(again.tasks_done) == 1
    return again


def test_a_checkpoint_of_another_method_is_refused(tmp_path: Path) -> None:
    trainer(ucl(), tmp_path, save_strategy="steps", save_steps=4).train()
    other = trainer(uclearn.UCL(bert(), batch(), hold="weights"), tmp_path)
    with pytest.raises(CheckpointError, match="must come from the same model, method and settings"):
        other.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))


def words(seed: int, count: int = 200) -> dict[str, torch.Tensor]:
    """The same as one dictionary, for a canary."""
    few = examples(seed, count)
    ids = torch.stack([each["input_ids"] for each in few])
    return {"input_ids": ids, "labels": torch.tensor([each["labels"] for each in few])}


def test_a_gate_takes_an_update_back_that_ruins_what_was_known(tmp_path: Path) -> None:
    from uclearn.integrations.guard import Guard
    from uclearn.integrations.transformers import GateCallback

    method = EWC(bert(), strength=0.0)
    guard = Guard(method, uclearn.Gate(max_drop=0.05), {"first": words(7)})
    learner = trainer(method, tmp_path, max_steps=60, learning_rate=1e-2)
    learner.train()
    learner.end_task()
    learner.add_callback(GateCallback(guard))
    before = {name: value.clone() for name, value in method.state_dict().items()}
    learner.train_dataset = [{**each, "labels": 1 - each["labels"]} for each in examples(2)]
    learner.train()
    assert guard.passed is False
    assert "Task 'first' went from" in guard.reason
    for name, value in method.state_dict().items():
        assert torch.equal(value, before[name]), name
    learner.optimizer = learner.lr_scheduler = None
    learner.train_dataset = examples(3)
    learner.train()
    assert "No old task is certain to have lost" in guard.reason
    now = method.state_dict()["model.classifier.weight"]
    assert not torch.equal(now, before["model.classifier.weight"])


@pytest.mark.slow
def test_a_gate_judges_an_update_that_goes_on_from_a_checkpoint_as_a_whole(tmp_path: Path) -> None:
    from uclearn.integrations.guard import Guard
    from uclearn.integrations.transformers import GateCallback

    def learner_of(method: EWC) -> Any:
        guard = Guard(method, uclearn.Gate(max_drop=0.05, mode="warn"), {"first": words(7)})
        made = trainer(method, tmp_path, max_steps=40, learning_rate=1e-2, save_strategy="no")
        return made, guard

    method = EWC(bert(), strength=0.0)
    learner, guard = learner_of(method)
    learner.train()
    learner.end_task()
    learner.args.save_strategy, learner.args.save_steps = "steps", 38
    learner.add_callback(GateCallback(guard))
    flipped = [{**each, "labels": 1 - each["labels"]} for each in examples(2)]
    learner.train_dataset = flipped
    learner.train()
    again, other = learner_of(EWC(bert(), strength=0.0))
    again.add_callback(GateCallback(other))
    again.train_dataset = flipped
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-38"))
    assert other.reason == guard.reason
    assert "Task 'first' went from" in other.reason


@pytest.mark.parametrize(
    "settings",
    [{"bf16": True}, {"torch_compile": True, "torch_compile_backend": "eager"}],
    ids=["mixed precision", "compiled"],
)
def test_it_learns_and_holds_in_every_way_that_a_trainer_trains(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    method = ucl()
    learner = trainer(method, tmp_path, gradient_accumulation_steps=2, **settings)
    start = method.model.classifier.weight.detach().clone()  # type: ignore[union-attr, operator]
    learner.train()
    learner.end_task()
    assert not torch.equal(start, method.model.classifier.weight)  # type: ignore[union-attr, arg-type]
    assert float(method.steps_taken[0]) == 4
    learner.train_dataset = examples(2)
    learner.train()
    assert float(method.penalty(batch_size=8).detach()) > 0
    rho = method._layers["classifier"].rho
    assert rho.dtype == torch.float32
    assert bool(rho.isfinite().all())


def test_checkpointed_gradients_are_those_of_the_same_noise(tmp_path: Path) -> None:
    made = []
    for checkpointed in (False, True):
        method = ucl()
        trainer(method, tmp_path, gradient_checkpointing=checkpointed, optim="sgd").train()
        made.append(method.state_dict())
    for name, one in made[0].items():
        assert torch.allclose(one, made[1][name], atol=1e-6), name
