"""What UCL costs on models of real size: `python -m benchmarks.real_models [--only bert]`.

Random weights, one batch, Adam, one thread, processor time; plain training, UCL and EWC take turns,
each after a task that is over, so that everything is held. Peak memory is that of a process of its
own that builds the model, ends a task and makes two moves. Results are kept in
benchmarks/real_models.json as they come, and fill the table of docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import uclearn
from benchmarks.pages import filled
from uclearn.integrations import attach
from uclearn.methods.contract import Method
from uclearn.methods.ewc import EWC

RECORD = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "speed.md"
ROUNDS = 4
Built = tuple[nn.Module, dict[str, torch.Tensor]]


def resnet() -> Built:
    """ResNet-18 on 64 x 64 pixels."""
    import transformers as t

    config = t.ResNetConfig(
        embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2],
        layer_type="basic", num_labels=10,
    )  # fmt: skip
    batch = {"pixel_values": torch.randn(16, 3, 64, 64), "labels": torch.randint(10, (16,))}
    return t.ResNetForImageClassification(config), batch


def vit() -> Built:
    """ViT-tiny on 224 x 224 pixels."""
    import transformers as t

    config = t.ViTConfig(
        hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768,
        num_labels=10,
    )  # fmt: skip
    batch = {"pixel_values": torch.randn(4, 3, 224, 224), "labels": torch.randint(10, (4,))}
    return t.ViTForImageClassification(config), batch


def bert() -> Built:
    """BERT-mini, 64 words."""
    import transformers as t

    config = t.BertConfig(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
        num_labels=3,
    )  # fmt: skip
    words = torch.randint(1000, 30000, (16, 64))
    batch = {"input_ids": words, "labels": torch.randint(3, (16,))}
    return t.BertForSequenceClassification(config), batch


def gpt2() -> Built:
    """GPT-2 small, 64 words."""
    import transformers as t

    words = torch.randint(50000, (2, 64))
    config = t.GPT2Config(use_cache=False)
    return t.GPT2LMHeadModel(config), {"input_ids": words, "labels": words}


def gpt2_with_lora() -> Built:
    """The same, of which adapters of rank 8 learn."""
    import peft

    model, batch = gpt2()
    settings = peft.LoraConfig(
        r=8, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True
    )
    return peft.get_peft_model(model, settings), batch


MODELS: dict[str, Callable[[], Built]] = {
    "ResNet-18": resnet,
    "ViT-tiny": vit,
    "BERT-mini": bert,
    "GPT-2 small with LoRA": gpt2_with_lora,
    "GPT-2 small": gpt2,
}
CASES: dict[str, Callable[[nn.Module, Any], Method]] = {
    "plain": lambda model, _: Method(model),
    "UCL": lambda model, inputs: uclearn.UCL(model, inputs),
    "UCL, weights drawn": lambda model, inputs: uclearn.UCL(
        model, inputs, hold="weights", sampling="weight"
    ),
    "EWC": lambda model, _: EWC(model, fisher_batch=2),
}


class Case:
    """A method that has ended a task, and is ready to move."""

    def __init__(self, model: nn.Module, batch: dict[str, torch.Tensor], name: str) -> None:
        inputs = {key: value for key, value in batch.items() if key != "labels"}
        began = time.process_time()
        self.method, self.batch = CASES[name](model, inputs), batch
        self.built = time.process_time() - began
        model = self.method.model
        size = len(batch["labels"])

        def losses() -> Any:
            half = {key: value[: size // 2] for key, value in batch.items()}
            yield model(**half).loss.expand(size // 2)

        self.method.end_task(losses=losses, inputs=[inputs])
        self.optimizer = torch.optim.Adam(self.method.parameter_groups(lr=1e-5))
        if name != "plain":
            attach(self.method, self.optimizer, batch_size=size)

    def move(self) -> float:
        """Seconds of one step."""
        began = time.process_time()
        self.method.model.train()
        self.optimizer.zero_grad()
        self.method.model(**self.batch).loss.backward()
        self.optimizer.step()
        return time.process_time() - began

    def kept(self) -> int:
        """Bytes of what the method remembers beside the network."""
        network = {id(t) for t in (*self.method.model.parameters(), *self.method.model.buffers())}
        own = (*self.method.parameters(), *self.method.buffers())
        return sum(t.numel() * t.element_size() for t in own if id(t) not in network)


def measured(name: str) -> dict[str, Any]:
    """All cases of one model, taking turns."""
    model, batch = MODELS[name]()
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    cases = {case: Case(model, batch, case) for case in CASES}
    seconds: dict[str, list[float]] = {case: [] for case in cases}
    for turn in range(ROUNDS + 1):
        for case, one in cases.items():
            taken = one.move()
            if turn:  # the first warms up
                seconds[case].append(taken)
    found: dict[str, Any] = {"model": name, "trained": trained, "cases": {}}
    for case, one in cases.items():
        found["cases"][case] = {
            "time": min(seconds[case]) / min(seconds["plain"]),
            "kept": one.kept() / (4 * trained),
            "built": one.built,
        }
    return found


def peak(name: str, case: str) -> float:
    """MB of a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.real_models", "--peak", name, case]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(told.splitlines()[-1])


def _peak_of_this_process() -> float:
    # not `ru_maxrss`, which a process inherits from the one that started it
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def table(records: list[dict[str, Any]]) -> str:
    """In Markdown."""
    lines = [
        "| model | trained weights | | time of a step | kept, in copies of the trained weights | "
        "peak memory | built in |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in records:
        for case, found in one["cases"].items():
            if case == "plain":
                continue
            high = found.get("peak")
            base = one["cases"]["plain"].get("peak")
            lines.append(
                f"| {one['model']} | {one['trained']:,} | {case} | {found['time']:.2f} | "
                f"{found['kept']:.2f} | {f'{high / base:.2f}' if high and base else '–'} | "
                f"{found['built']:.1f} s |"
            )
    return "\n".join(lines)


def main() -> None:
    """Measure what is asked for, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of a model's name")
    parser.add_argument("--peak", nargs=2, help="a model and a case: print the peak memory in MB")
    parser.add_argument("--no-memory", action="store_true", help="leave peaks out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.peak:
        one = Case(*MODELS[options.peak[0]](), options.peak[1])
        one.move(), one.move()
        print(_peak_of_this_process())
        return
    records = json.loads(RECORD.read_text()) if RECORD.exists() else []
    for name in MODELS:
        if options.only not in name:
            continue
        found = measured(name)
        if not options.no_memory:
            for case in CASES:
                found["cases"][case]["peak"] = peak(name, case)
        records = [each for each in records if each["model"] != name] + [found]
        print(table([found]), flush=True)
        RECORD.write_text(json.dumps(records, indent=1) + "\n")
        PAGE.write_text(filled(PAGE.read_text(), {"real-models": table(records)}))


if __name__ == "__main__":
    main()
