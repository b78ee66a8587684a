"""Settings for the digits that come with the package. They are ours: chosen so that all methods
learn in seconds."""

from __future__ import annotations

from collections.abc import Sequence

from uclearn.experiments.published import OURS, WHOLE_TASK, Values, of

_SOURCE = f"{OURS}: for the digits"


def preset(name: str, method: str, wrappers: Sequence[str]) -> Values:
    """What both presets say about a benchmark on the digits."""
    values = of("network", _SOURCE, hidden=(200, 200))
    values |= of("plan", _SOURCE, epochs=15, batch_size=64, lr=0.003)
    if method == "hat":
        values |= of("plan", _SOURCE, optimizer="sgd", lr=0.05)
    for part in (method, *wrappers):
        values |= _PARTS[name].get(part, {})
    return values


_COMMON: dict[str, Values] = {
    "vcl": of("vcl", _SOURCE, samples=5, start_epochs=20, start_batch_size=64),
    "coreset": of("coreset", _SOURCE, size=20, refit_epochs=20, refit_batch_size=WHOLE_TASK),
    "replay": of("replay", _SOURCE, size=200),
}
_PARTS: dict[str, dict[str, Values]] = {
    "permuted-digits": {
        **_COMMON,
        "ucl": of("ucl", _SOURCE, beta=0.03, lr_sigma=0.01, ratio=0.5, means="draw"),
        "ewc": of("ewc", _SOURCE, strength=100.0),
        "si": of("si", _SOURCE, strength=0.3),
    },
    "split-digits": {
        **_COMMON,
        "ucl": of("ucl", _SOURCE, beta=0.03, lr_sigma=0.01, ratio=0.5, means="draw"),
        "ewc": of("ewc", _SOURCE, strength=100.0),
        "si": of("si", _SOURCE, strength=0.3),
    },
}
