"""Settings of our own: where `best` departs from the paper, and those for the digits that come with
the package.

The latter are meant for a first look, not for ranking methods. The network, the plan and the
ranges of the grids were chosen by the accuracy of ten tasks with one seed on test data; strengths
then by `uclearn sweep`, on validation data of the first five tasks of permuted-digits and the first
three of split-digits. The sweeps were not equally wide: UCL's had `alpha` and `ratio` too, those
of LwF, RWalk and HAT were narrower.
"""

from __future__ import annotations

from collections.abc import Sequence

from uclearn.paper.settings import OURS, WHOLE_TASK, Values, of

BEST: dict[str, Values] = {
    "ucl": of("ucl", f"{OURS}: cheaper than one draw of the weights", sampling="local"),
}
"""By part: what `best` has instead of the paper's values, on all benchmarks of the paper."""

_GRIDS = f"{OURS}: best on validation data of the first 3 tasks, results/grids"

TUNED: dict[tuple[str, str], Values] = {
    ("permuted-mnist", "ucl"): of("ucl", _GRIDS, beta=0.01, sigma=None, ratio=0.25, means="draw"),
    ("split-notmnist", "ucl"): of(
        "ucl", _GRIDS, beta=0.0001, lr_sigma=0.03, sigma=None, ratio=0.5, means="draw"
    ),
    ("split-notmnist", "ewc"): of("ewc", _GRIDS, strength=4_000_000.0),
    ("split-notmnist", "si"): of("si", _GRIDS, strength=3.0),
}
"""By benchmark and part: what `best` has beyond that, where it was looked for."""

_PLAN = f"{OURS}: learns in seconds"
_SWEEP = f"{OURS}: best in a sweep, by validation data of the first tasks"
_SIZE = f"{OURS}: to suit 1,797 digits"


def for_digits(name: str, method: str, wrappers: Sequence[str]) -> Values:
    """What both presets say about a benchmark on the digits."""
    values = of("network", _PLAN, hidden=(200, 200))
    values |= of("plan", _PLAN, epochs=15, batch_size=64, lr=0.003)
    for part in (method, *wrappers):
        values |= _COMMON.get(part, {}) | _OWN.get(name, {}).get(part, {})
    return values


_COMMON: dict[str, Values] = {
    "ucl": of("ucl", _SWEEP, ratio=0.5, means="draw"),
    "vcl": of("vcl", _SIZE, samples=5, start_epochs=15, start_batch_size=64),
    "hat": of("plan", _SWEEP, optimizer="sgd", lr=0.2) | of("hat", _SWEEP, strength=0.75),
    "lwf": of("lwf", _SWEEP, strength=0.3),
    "coreset": of("coreset", _SIZE, size=20, refit_epochs=15, refit_batch_size=WHOLE_TASK),
    "replay": of("replay", _SIZE, size=200),
}
_OWN: dict[str, dict[str, Values]] = {
    "permuted-digits": {
        "ucl": of("ucl", _SWEEP, beta=0.05, lr_sigma=0.02, alpha=0.1),
        "ewc": of("ewc", _SWEEP, strength=1000.0),
        "si": of("si", _SWEEP, strength=0.3),
        "mas": of("mas", _SWEEP, strength=0.01),
        "rwalk": of("rwalk", _SWEEP, strength=1.0),
    },
    "split-digits": {
        "ucl": of("ucl", _SWEEP, beta=0.01, lr_sigma=0.01),
        "ewc": of("ewc", _SWEEP, strength=100.0),
        "si": of("si", _SWEEP, strength=1.0),
        "mas": of("mas", _SWEEP, strength=0.1),
        "rwalk": of("rwalk", _SWEEP, strength=10.0),
    },
}
