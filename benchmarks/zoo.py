"""Models that nobody here wrote: does UCL take them as they are, and how much of them does it hold?

    python -m benchmarks.zoo [--out benchmarks/zoo.json] [--only bert,vit]

(with --only, what the file says of other models stays; benchmarks/zoo.json also fills the table of
docs/own-loop.md)

Small configurations with random weights, from transformers, timm, peft and torch itself (extra
`zoo`); what is not installed is left out and said so. Each model is given to UCL as it is, with a
dictionary of arguments as an example, learns two tasks of one step, and is exported.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import uclearn
from benchmarks.pages import filled
from benchmarks.zoo_models import Entry, entries
from uclearn.networks import answer

RECORD = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "own-loop.md"


def look(entry: Entry) -> dict[str, Any]:
    """What becomes of one model."""
    torch.manual_seed(0)
    found: dict[str, Any] = {"name": entry.name, "source": entry.source}
    try:
        model, example = entry.build()
        with torch.no_grad():
            model.eval()(**example)
    except Exception as error:
        return {**found, "built": False, "error": _short(error)}
    found |= {"built": True, "weights": _trainable(model)}
    start = time.perf_counter()
    try:
        method = uclearn.UCL(model, example)
        found["seconds"] = round(time.perf_counter() - start, 2)
        cover = method.coverage()
        found |= {
            "converts": True,
            "held": round(cover.share, 4),
            "by_nodes": round(cover.by_nodes / max(cover.total, 1), 4),
            "reasons": sorted(set(cover.loose.values())),
            "cuts": list(cover.cuts),
        }
        found["exports_equal"] = _learn_and_export(method, example)
    except Exception as error:
        return {"converts": False, **found, "error": _short(error)}
    return found


def _learn_and_export(method: uclearn.UCL, example: Mapping[str, Any]) -> bool:
    """Whether the exported model says what the mean network says, after two tasks."""
    for _ in range(2):
        optimizer = torch.optim.SGD(method.parameter_groups(lr=1e-4))
        method.model.train()
        loss = _loss(method.model(**example)) + method.penalty(batch_size=2)
        loss.backward()
        optimizer.step()
        method.end_task(inputs=[dict(example)])
    with torch.no_grad(), method.inference() as network:
        torch.manual_seed(1)
        there = network(**example)
        torch.manual_seed(1)
        back = method.export()(**example)
    return all(map(torch.equal, _tensors(there), _tensors(back)))


def _loss(output: Any) -> Tensor:
    return answer(output).float().square().mean()


def _tensors(output: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]


def _trainable(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers that the bar is about."""
    built = [each for each in found if each["built"]]
    taken = [each for each in built if each.get("converts")]
    weights = sum(each["weights"] for each in built)
    held = sum(each["weights"] * each.get("held", 0) for each in taken)
    return {
        "built": len(built),
        "not_built": len(found) - len(built),
        "convert": len(taken),
        "export_equal": sum(each.get("exports_equal", False) for each in taken),
        "hold_95": sum(each["held"] >= 0.95 for each in taken),
        "by_nodes_90": sum(each["by_nodes"] >= 0.9 for each in taken),
        "share_of_weights_held": round(held / max(weights, 1), 4),
    }


def main() -> None:
    """Look at all of them, print a line each, and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", help="parts of names, with commas")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = options.only.split(",") if options.only else [""]
    known = json.loads(options.out.read_text())["models"] if _goes_on(options) else []
    found = {(each["source"], each["name"]): each for each in known}
    for entry in entries():
        if any(part in entry.name for part in wanted):
            found[entry.source, entry.name] = look(entry)
            print(_line(found[entry.source, entry.name]), flush=True)
            if options.out:
                _write(options.out, list(found.values()))
    print(json.dumps(summary(list(found.values()))))


def table(found: list[dict[str, Any]]) -> str:
    """By package what became of its models, in Markdown."""
    lines = [
        "| package | models | converted as they are | exported equal to the bit | 95 % of the "
        "trainable weights held | 90 % held by nodes |",
        "|---|---|---|---|---|---|",
    ]
    sources = dict.fromkeys(each["source"] for each in found)
    for source in (*sources, None):
        own = summary([each for each in found if source in (None, each["source"])])
        names = ("built", "convert", "export_equal", "hold_95", "by_nodes_90")
        cells = " | ".join(str(own[name]) for name in names)
        lines.append(f"| {source or 'all'} | {cells} |")
    failed = [each for each in found if each["built"] and not each.get("exports_equal")]
    reasons: dict[str, list[str]] = {}
    for each in failed:
        reason = each.get("error", "The exported model differs").partition(". ")[0]
        reasons.setdefault(reason.partition(": ")[2] or reason, []).append(each["name"])
    told = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    return "\n".join([*lines, "", f"Not taken: {told or 'none'}."])


def _goes_on(options: argparse.Namespace) -> bool:
    return bool(options.only and options.out and options.out.exists())


def _write(path: Path, found: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({"summary": summary(found), "models": found}, indent=1) + "\n")
    if path.resolve() == RECORD:
        PAGE.write_text(filled(PAGE.read_text(), {"zoo": table(found)}))


def _line(each: dict[str, Any]) -> str:
    name = f"{each['source']:13} {each['name']:32}"
    if not each["built"]:
        return f"{name} not built: {each['error'][:150]}"
    if not each.get("exports_equal"):
        return f"{name} FAILS: {each.get('error', 'the exported model says something else')}"
    return (
        f"{name} held {each['held']:6.1%}, by nodes {each['by_nodes']:6.1%}, "
        f"{each['seconds']:5.2f} s {'; '.join(each['cuts'])[:120]}"
    )


if __name__ == "__main__":
    main()
