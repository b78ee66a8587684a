"""A small language model that goes on learning: four methods against forgetting, beside LoRA.

A model of characters is trained from nothing on Python's own manual. Then it is fine-tuned, with
LoRA adapters, on three kinds of text that come one after the other and never again: Python, C++
and licences. All of them lie on any machine where torch is installed. How surprised is it by each
in the end (perplexity: 1 is certain of every character)? And what would a gate have said to each
update?

    python examples/language_model.py [folder for a report]
"""

from __future__ import annotations

import copy
import importlib.metadata
import math
import pydoc_data.topics
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import peft
import torch
import transformers
from torch import Tensor, nn

import uclearn
from uclearn.methods.losses import cross_entropy
from uclearn.networks import run
from uclearn.tasks import Data, Task, iterate
from uclearn.training.loop import TaskLoop
from uclearn.training.plan import Plan

LENGTH, CHARACTERS, TEST = 64, 128, 96
"""Of a window; ASCII; windows of each kind that are never trained on."""
BASE, FURTHER = 12_000, 1_600
"""Windows to train on: of the manual, and of each kind of text that comes later."""
BEFORE = Plan(epochs=1, batch_size=16, lr=0.004, schedule="cosine", warmup=0.05)
AFTER = Plan(epochs=2, batch_size=32, lr=0.003, schedule="cosine")
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fine-tuning": ("finetuning", {}),
    "UCL": ("ucl", {"pretrained": True}),
    "EWC": ("ewc", {}),
    "replay": ("finetuning+replay", {"size": 512}),
    "UCL with replay": ("ucl+replay", {"pretrained": True, "size": 512}),
}
"""By label what a `Learner` is told; every setting else is by rule."""


class Text(NamedTuple):
    """Windows to learn from and to be judged by: characters, and those that follow them."""

    train: Data
    test: Data


def texts() -> dict[str, str]:
    """What was there before, and what comes later."""
    library = Path(sysconfig.get_path("stdlib"))
    headers = Path(torch.__file__).parent / "include" / "ATen"
    licences = {
        path.locate().read_text(errors="ignore")  # type: ignore[attr-defined]
        for each in importlib.metadata.distributions()
        for path in each.files or []
        if "licen" in path.name.lower() and path.suffix in ("", ".txt", ".md", ".rst")
        if Path(str(path.locate())).exists()
    }
    return {
        "manual": "\n".join(pydoc_data.topics.topics.values()),
        "Python": "\n".join(path.read_text() for path in sorted(library.glob("*.py"))[:60]),
        "C++": "\n".join(path.read_text() for path in sorted(headers.glob("*.h"))[:60]),
        "licences": "\n".join(sorted(licences)),
    }


def windows(text: str, count: int, seed: int = 0) -> Text:
    """Random windows of the first nine tenths of a text to learn from, and of the rest."""
    letters = torch.frombuffer(bytearray(text.encode("ascii", "ignore")), dtype=torch.uint8).long()
    cut, generator = len(letters) * 9 // 10, torch.Generator().manual_seed(seed)

    def some(part: Tensor, number: int) -> Data:
        begins = torch.randint(len(part) - LENGTH, (number, 1), generator=generator)
        found = part[begins + torch.arange(LENGTH + 1)]
        return Data(found[:, :-1].contiguous(), found[:, 1:].contiguous())

    return Text(some(letters[:cut], count), some(letters[cut:], TEST))


def network() -> nn.Module:
    """A small Llama."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=CHARACTERS,
        hidden_size=80,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=LENGTH,
        use_cache=False,
    )
    model: nn.Module = transformers.LlamaForCausalLM(config)
    return model


def trained_from_nothing(text: Text) -> nn.Module:
    """The model that knows the manual."""
    method = uclearn.Method(network())
    loop = TaskLoop(method, Task("manual", 0, text.train), BEFORE, cross_entropy)
    while not loop.done:
        loop.run_epoch(lambda *_: None)
    return method.model.eval()


def adapted(base: nn.Module) -> nn.Module:
    """The same with adapters beside its linear layers; only those will learn."""
    torch.manual_seed(0)
    where = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    settings = peft.LoraConfig(r=8, lora_alpha=16, target_modules=where)
    model: nn.Module = peft.get_peft_model(copy.deepcopy(base), settings)
    return model


def show(method: uclearn.Method, known: Data) -> None:
    """Tell a method what the model was trained on: a task that is over, before the first new one.
    Each takes of it what it needs: inputs, losses, examples to keep, or nothing."""
    some = known.subset(torch.arange(min(512, len(known))))
    batches = list(iterate(some, AFTER.batch_size))

    def losses() -> Iterator[Tensor]:
        for batch in batches:
            yield cross_entropy(run(method.model, batch.inputs), batch.targets).mean(1)

    task = Task("manual", 0, some, classes=CHARACTERS)
    method.end_task(task, losses, inputs=[batch.inputs for batch in batches])


@torch.no_grad()
def perplexity(learner: uclearn.Learner, text: Text) -> float:
    """How many characters it hesitates between, on average."""
    with learner.method.inference() as model:
        losses = [
            cross_entropy(run(model, batch.inputs), batch.targets).mean(1)
            for batch in iterate(text.test, 64)
        ]
    return math.exp(float(torch.cat(losses).mean()))


class Story(NamedTuple):
    """Of one method: perplexity of each text right after it was learned, and in the end."""

    fresh: dict[str, float]
    final: dict[str, float]
    refused: list[str]
    """The updates that the gate would have turned away."""
    learner: uclearn.Learner

    @property
    def average(self) -> float:
        """The geometric mean of what is there in the end."""
        return math.exp(sum(map(math.log, self.final.values())) / len(self.final))


def story(
    name: str, settings: dict[str, Any], base: nn.Module, all_texts: dict[str, Text]
) -> Story:
    """Three kinds of text, one after the other."""
    manual = all_texts["manual"]
    learner = uclearn.Learner(
        adapted(base), name, example=manual.train.inputs[:2], plan=AFTER, **settings
    )
    show(learner.method, manual.train)
    gate = uclearn.Gate(max_drop=0.02, canary=64, mode="warn")
    fresh, refused = {}, []
    for kind, text in list(all_texts.items())[1:]:
        update = learner.learn(text.train, name=kind, gate=gate)
        fresh[kind] = perplexity(learner, text)
        if update.decision == "warned":
            refused.append(kind)
    final = {kind: perplexity(learner, text) for kind, text in all_texts.items()}
    return Story(fresh, final, refused, learner)


def compare(tell: Callable[[str], None] = print) -> tuple[dict[str, float], dict[str, Story]]:
    """What the model knew before it went on, and what each method made of it."""
    all_texts = {
        kind: windows(text, BASE if kind == "manual" else FURTHER) for kind, text in texts().items()
    }
    base = trained_from_nothing(all_texts["manual"])
    blank = uclearn.Learner(base, "finetuning", example=all_texts["manual"].train.inputs[:2])
    before = {kind: perplexity(blank, text) for kind, text in all_texts.items()}
    told = {}
    for label, (name, settings) in METHODS.items():
        told[label] = story(name, settings, base, all_texts)
        tell(f"{label}: done")
    return before, told


def table(before: dict[str, float], told: dict[str, Story]) -> str:
    """Perplexities in the end (and right after), one row per method, in Markdown."""
    kinds = list(before)
    lines = [
        f"| perplexity in the end (right after learning it) | {' | '.join(kinds)} | mean | "
        "updates that a gate refuses |",
        f"|---|{'---|' * (len(kinds) + 2)}",
    ]
    average = math.exp(sum(map(math.log, before.values())) / len(before))
    cells = " | ".join(f"{value:.1f}" for value in before.values())
    lines.append(f"| before | {cells} | {average:.1f} | |")
    for label, one in told.items():
        shown = [f"{one.final[kinds[0]]:.1f}"]
        shown += [f"{one.final[kind]:.1f} ({one.fresh[kind]:.1f})" for kind in kinds[1:]]
        refused = ", ".join(one.refused) or "none"
        lines.append(f"| {label} | {' | '.join(shown)} | {one.average:.2f} | {refused} |")
    return "\n".join(lines)


def main() -> None:
    """Learn, and tell."""
    print("A model of characters learns a manual, then three kinds of text: some minutes.\n")
    before, told = compare()
    print(f"\n{table(before, told)}")
    if len(sys.argv) > 1:
        from uclearn.report import write_journal_report

        folder = Path(sys.argv[1])
        told["UCL"].learner.save(folder)
        write_journal_report(folder, folder / "report.html")
        print(f"\nThe updates of UCL, and what the gate said to them: {folder / 'report.html'}")


if __name__ == "__main__":
    main()
