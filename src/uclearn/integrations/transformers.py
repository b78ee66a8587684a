"""A `transformers.Trainer` that does not forget.

    method = uclearn.UCL(model, example=batch)
    trainer = ContinualTrainer(method=method, args=args, train_dataset=first)
    trainer.train()
    trainer.end_task()
    trainer.train_dataset = second
    trainer.train()

The penalty is added once for each move of the optimiser, whatever is accumulated; checkpoints hold
what the method remembers, and `train(resume_from_checkpoint=...)` takes it up again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback

from uclearn.integrations.guard import Guard
from uclearn.integrations.optimizers import attach, memory_of, remember
from uclearn.methods.contract import Method
from uclearn.storage import checkpoint

MEMORY = "uclearn.safetensors"
"""Within a checkpoint of the trainer: what the method remembers, and what it trains."""
GUARDED = "uclearn-gate.safetensors"
"""Within a checkpoint of the trainer: what a gate compares with."""
_log = logging.getLogger("uclearn")
EXAMPLES = 1024
"""Of a finished task that are looked at when it ends."""


class Continual:
    """What makes a trainer continual. A mixin, for trainers made of `transformers.Trainer`:
    `class ContinualSFT(Continual, SFTTrainer): ...`.

    Args:
        method: holds the model, which takes the place of `model`.
        settings: as for the trainer.
    """

    method: Method

    def __init__(self, *, method: Method, **settings: Any) -> None:
        self.method = method
        super().__init__(model=method.model, **settings)  # type: ignore[call-arg]

    def train(self: Any, *given: Any, **named: Any) -> Any:
        """As the trainer does; with gradient checkpointing both passes draw the same noise."""
        args, noise = self.args, self.method.noise
        own = args.gradient_checkpointing_kwargs
        if args.gradient_checkpointing and noise is not None:
            same = {"use_reentrant": False, "context_fn": noise.again}
            args.gradient_checkpointing_kwargs = {**(own or {}), **same}
        try:
            return super().train(*given, **named)  # type: ignore[misc]
        finally:
            args.gradient_checkpointing_kwargs = own

    def create_optimizer(self: Any, model: nn.Module | None = None) -> Any:
        """The trainer's own choice, on the method's groups of parameters, which it follows."""
        if self.optimizer is None:
            args, method = self.args, self.method
            if self.state.max_steps > 0:
                method.task_steps = self.state.max_steps
            kind, settings = self.get_optimizer_cls_and_kwargs(args, self.model)
            groups = method.parameter_groups(settings.get("lr", args.learning_rate))
            decayed = [{"weight_decay": args.weight_decay, **group} for group in groups]
            optimizer = kind(decayed, **settings)
            attach(method, optimizer, self._examples_of_a_move())
            self.optimizer = optimizer
        return self.optimizer

    def end_task(self: Any) -> None:
        """The task is over: consolidate, and let the next `train` begin with a fresh optimiser."""
        batches = list(islice(self._batches(), max(1, EXAMPLES // self.args.train_batch_size)))
        self.method.end_task(losses=lambda: self._losses(batches), inputs=batches)
        self.optimizer = self.lr_scheduler = None

    def _examples_of_a_move(self: Any) -> int:
        args = self.args
        return int(args.train_batch_size * args.gradient_accumulation_steps * args.world_size)

    def _batches(self: Any) -> Iterator[dict[str, Any]]:
        for batch in self.get_train_dataloader():
            yield dict(self._prepare_inputs(batch))

    def _losses(self: Any, batches: list[dict[str, Any]]) -> Iterator[Tensor]:
        """(batch,) each: what the trainer would make of each example alone."""
        for batch in batches:
            yield torch.stack(
                [self.compute_loss(self.method.model, dict(one)) for one in _examples(batch)]
            )

    # -- checkpoints -----------------------------------------------------------------------

    def _save_checkpoint(self: Any, model: nn.Module, trial: Any) -> None:
        super()._save_checkpoint(model, trial)  # type: ignore[misc]
        if self.args.should_save:
            folder = Path(self._get_output_dir(trial=trial))
            path = folder / f"checkpoint-{self.state.global_step}" / MEMORY
            checkpoint.save(path, memory_of(self.method), "memory of a trainer")

    def _load_from_checkpoint(self: Any, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]
        path = Path(resume_from_checkpoint) / MEMORY
        remember(self.method, checkpoint.load(path, "memory of a trainer"), str(path))


class ContinualTrainer(Continual, Trainer):  # type: ignore[misc]
    """`transformers.Trainer` around a method; see `Continual`."""


class GateCallback(TrainerCallback):  # type: ignore[misc]
    """Has a guard judge each `train`: `callbacks=[GateCallback(Guard(method, gate, canaries))]`.
    Where it refuses (`guard.passed` is False), the model is what it was before; do not call
    `end_task` then. Checkpoints hold what it was, so that going on from one is judged as a whole.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard

    def on_train_begin(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Look at what is known, or take up again what was known when this began."""
        if state.global_step > 0:
            self._go_on(args, state.global_step)
        self.guard.begin()

    def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Into the checkpoint that was just written."""
        path = Path(args.output_dir) / f"checkpoint-{state.global_step}" / GUARDED
        if path.parent.is_dir():
            checkpoint.save(path, self.guard.state_dict(), "state of a guard")

    def _go_on(self, args: Any, step: int) -> None:
        given = args.resume_from_checkpoint
        folders = [Path(args.output_dir) / f"checkpoint-{step}"]
        folders[:0] = [Path(given)] if isinstance(given, str | Path) else []
        path = next((each / GUARDED for each in folders if (each / GUARDED).exists()), None)
        if path is None:
            _log.warning(
                "There is no %s in %s: this update is compared with the checkpoint, not with what "
                "was there when it began.",
                *(GUARDED, folders[-1]),
            )
        else:
            self.guard.load_state_dict(checkpoint.load(path, "state of a guard"))

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Look again."""
        self.guard.end()


def _examples(batch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Each example of a batch as a batch of one; what is no tensor goes with each of them."""
    count = next(len(value) for value in batch.values() if isinstance(value, Tensor))
    for i in range(count):
        yield {
            key: value[i : i + 1] if isinstance(value, Tensor) else value
            for key, value in batch.items()
        }
