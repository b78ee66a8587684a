"""TRL's trainer for language models, made continual by the mixin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import uclearn

trl = pytest.importorskip("trl", reason="trl is not installed; it brings many packages of its own")
datasets = pytest.importorskip("datasets", reason="datasets is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of the trainer and its packages
]

WORDS = 20


def llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.LlamaForCausalLM(config)


def tokenizer() -> Any:
    import tokenizers

    names = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"w{i}": i for i in range(3, WORDS)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(names, unk_token="<pad>"))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def texts(seed: int) -> Any:
    words = torch.randint(3, WORDS, (16, 8), generator=torch.Generator().manual_seed(seed))
    return datasets.Dataset.from_dict({"input_ids": words.tolist()})


def test_a_trainer_of_trl_learns_two_tasks_and_holds_the_first(tmp_path: Path) -> None:
    from uclearn.integrations.transformers import Continual

    class ContinualSFT(Continual, trl.SFTTrainer):  # type: ignore[misc, name-defined]
        pass

    method = uclearn.UCL(llama(), {"input_ids": torch.randint(3, WORDS, (2, 8))})
    args = trl.SFTConfig(
        output_dir=str(tmp_path),
        max_steps=3,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer: Any = ContinualSFT(
        method=method, args=args, train_dataset=texts(0), processing_class=tokenizer()
    )
    trainer.train()
    assert float(method.steps_taken[1]) == 3  # moves, not micro-batches
    trainer.end_task()
    assert int(method.tasks_done) == 1
    trainer.train_dataset = trainer._prepare_dataset(
        texts(1), tokenizer(), args, False, None, "train"
    )
    trainer.train()
    assert float(method.penalty(batch_size=8).detach()) > 0
