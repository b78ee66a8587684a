"""Do the rules hold where tasks, batches and networks are of other sizes?

`python -m benchmarks.robust` learns the permuted digits and the small notMNIST with UCL's defaults:
as they are, with a quarter and four times the epochs, half and twice the batch size, half and twice
the width. In each case its two main numbers are also tried ten times (beta) and three times
(lr_sigma) smaller and larger, and the table of docs/rules.md says what the default loses against
the best of the five. Results are kept as they come, and what is known is not run again. An hour or
two on one core.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks.pages import filled
from uclearn.methods.ucl import rules
from uclearn.runs.prepare import prepare
from uclearn.runs.resolve import resolve
from uclearn.training.session import learn

RECORDS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).parents[1] / "docs" / "rules.md"
SEEDS = {"permuted-digits": (0, 1, 2), "split-notmnist": (0,)}
CASES: dict[str, dict[str, float]] = {
    "as it is": {},
    "a quarter of the epochs": {"plan.epochs": 0.25},
    "four times the epochs": {"plan.epochs": 4},
    "half the batch": {"plan.batch_size": 0.5},
    "twice the batch": {"plan.batch_size": 2},
    "half the width": {"network.hidden": 0.5},
    "twice the width": {"network.hidden": 2},
}
DEFAULT = "by rule"
AROUND: dict[str, dict[str, float]] = {
    DEFAULT: {},
    "beta / 10": {"CAUTION": 10.0},
    "beta x 10": {"CAUTION": 0.1},
    "lr_sigma / 3": {"REACH": 1 / 3},
    "lr_sigma x 3": {"REACH": 3.0},
}
"""beta is inversely proportional to the rule's CAUTION, lr_sigma proportional to its REACH."""

Records = list[dict[str, Any]]


class Run(NamedTuple):
    """One of them."""

    benchmark: str
    case: str
    setting: str
    seed: int

    def accuracy(self) -> float:
        """Over all tasks after the last."""
        changed = {key: self._scaled(key, by) for key, by in CASES[self.case].items()}
        config = resolve(self.benchmark, "ucl", seed=self.seed, overrides=changed)
        before = {name: getattr(rules, name) for name in AROUND[self.setting]}
        try:
            for name, factor in AROUND[self.setting].items():
                setattr(rules, name, before[name] * factor)
            prepared = prepare(config)
            last = learn(prepared.method, prepared.tasks, config.make_plan()).accuracy_matrix[-1]
        finally:
            for name, value in before.items():
                setattr(rules, name, value)
        return sum(last) / len(last)

    def _scaled(self, key: str, by: float) -> Any:
        usual = resolve(self.benchmark, "ucl", seed=self.seed)
        if key == "network.hidden":
            return [round(width * by) for width in usual.network.hidden]
        plan = usual.make_plan()
        return max(1, round(getattr(plan, key.removeprefix("plan.")) * by))


def runs() -> Iterator[Run]:
    """All of them, one seed after the other."""
    for number in range(max(map(len, SEEDS.values()))):
        for benchmark, seeds in SEEDS.items():
            for seed in seeds[number : number + 1]:
                for case in CASES:
                    for setting in AROUND:
                        yield Run(benchmark, case, setting, seed)


def main() -> None:
    """Run what is missing, keep the numbers beside this file, write the page."""
    torch.set_num_threads(1)
    records: Records = json.loads(RECORDS.read_text()) if RECORDS.exists() else []
    known = {Run(*(one[field] for field in Run._fields)) for one in records}
    for run in runs():
        if run not in known:
            records.append({**run._asdict(), "accuracy": run.accuracy()})
            RECORDS.write_text(json.dumps(records, indent=1) + "\n")
            PAGE.write_text(filled(PAGE.read_text(), {"robust": table(records)}))


def table(records: Records) -> str:
    """In Markdown: what the default loses, case by case, over the seeds that are complete."""
    lines = [
        "| benchmark | case | seeds | by rule, % | best of five, % | which | lost |",
        "|---|---|---|---|---|---|---|",
    ]
    for benchmark in SEEDS:
        for case in CASES:
            found = _means(records, benchmark, case)
            if not found:
                continue
            seeds, means = found
            best = max(means, key=means.__getitem__)
            lost = means[best] - means[DEFAULT]
            cells = (
                benchmark,
                case,
                str(seeds),
                f"{100 * means[DEFAULT]:.1f}",
                f"{100 * means[best]:.1f}",
                best,
                f"{100 * lost:.1f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _means(records: Records, benchmark: str, case: str) -> tuple[int, dict[str, float]] | None:
    """How many seeds have all settings, and the mean of each setting over those."""
    own = [one for one in records if (one["benchmark"], one["case"]) == (benchmark, case)]
    by_seed: dict[int, dict[str, float]] = {}
    for one in own:
        by_seed.setdefault(one["seed"], {})[one["setting"]] = one["accuracy"]
    whole = [found for found in by_seed.values() if len(found) == len(AROUND)]
    if not whole:
        return None
    return len(whole), {name: sum(one[name] for one in whole) / len(whole) for name in AROUND}


if __name__ == "__main__":
    main()
