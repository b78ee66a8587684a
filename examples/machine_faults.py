"""A fault classifier in production that gets a new type of machine each month.

An accelerometer listens to pumps, fans and mills. A network tells from a quarter of a second of
vibration whether the machine is healthy, out of balance, misaligned or has a damaged bearing. Each
month machines of a new type are connected, and their data come once: the network must learn them
without forgetting the old ones. We follow it through half a year: a rejected update, a network that
is widened, and a small ONNX file for the computer in the control room.

    python examples/machine_faults.py [FOLDER]

The signals are made here (see `signals`): shaft, harmonics, bearing impacts ringing at the
machine's resonance, noise. Real ones come from your own loggers.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import uclearn
from uclearn.networks import mlp
from uclearn.training import Plan

FAULTS = ("healthy", "imbalance", "misalignment", "bearing")
RATE, SAMPLES = 4096, 1024
"""Samples per second; a quarter of a second of them."""
BANDS = 30

Floats = NDArray[np.float32]


class Machine(NamedTuple):
    """What a type of machine sounds like."""

    name: str
    shaft: float
    """Turns per second."""
    bearing: float
    """Impacts of a damaged bearing per turn."""
    resonance: float
    """Of the casing, in Hz."""
    noise: float


MACHINES = (
    Machine("pump", 24.0, 3.6, 700.0, 0.3),
    Machine("fan", 48.0, 4.4, 1100.0, 0.4),
    Machine("compressor", 33.0, 5.1, 1500.0, 0.3),
    Machine("mill", 12.0, 7.2, 450.0, 0.4),
    Machine("conveyor", 8.0, 6.3, 300.0, 0.3),
    Machine("turbine", 80.0, 4.9, 1900.0, 0.3),
)


def signals(machine: Machine, labels: NDArray[np.int64], chance: np.random.Generator) -> Floats:
    """Vibration for each label, (examples, SAMPLES)."""
    count = len(labels)
    seconds = np.arange(SAMPLES) / RATE
    speed = machine.shaft * chance.uniform(0.95, 1.05, (count, 1))  # the load varies
    turn = 2 * np.pi * (speed * seconds + chance.random((count, 1)))
    severity = chance.uniform(0.6, 1.6, (count, 1))
    once = np.where(labels == 1, 1.0, 0.35)[:, None]  # imbalance: strong at the shaft's speed
    twice = np.where(labels == 2, 0.9, 0.15)[:, None]  # misalignment: strong at twice of it
    wave = severity * (once * np.sin(turn) + twice * np.sin(2 * turn + 0.7))
    phase = (machine.bearing * speed * seconds + chance.random((count, 1))) % 1.0
    since = phase / (machine.bearing * speed)  # seconds since the last impact
    ring = np.exp(-since * 400) * np.sin(2 * np.pi * machine.resonance * since)
    wave += np.where(labels == 3, 1.2, 0.0)[:, None] * severity * ring
    wave += machine.noise * chance.standard_normal((count, SAMPLES))
    made: Floats = wave.astype(np.float32)
    return made


def features(waves: Floats) -> Floats:
    """Loudness in bands that widen with frequency, and how spiky the signal is."""
    power = np.abs(np.fft.rfft(waves * np.hanning(SAMPLES), axis=1)) ** 2
    edges = np.unique(np.geomspace(2, power.shape[1] - 1, BANDS + 1).astype(int))
    bands = np.add.reduceat(power, edges[:-1], axis=1) / np.diff(edges)
    centred = waves - waves.mean(axis=1, keepdims=True)
    kurtosis = (centred**4).mean(axis=1) / (centred**2).mean(axis=1) ** 2
    return np.column_stack([np.log(bands) / 4 - 1, kurtosis / 5]).astype(np.float32)


def month(
    machine: Machine, examples: int = 1200, seed: int = 0
) -> tuple[Floats, NDArray[np.int64]]:
    """What the loggers of one type of machine deliver: features and faults."""
    chance = np.random.default_rng([seed, MACHINES.index(machine)])
    labels = chance.integers(len(FAULTS), size=examples)
    return features(signals(machine, labels, chance)), labels


def story(folder: Path) -> uclearn.Learner:
    """Half a year, told on the way."""
    width = month(MACHINES[0], 1)[0].shape[1]
    learner = uclearn.Learner(
        mlp(width, (48, 48), None),
        method="ucl",
        plan=Plan(epochs=15, batch_size=32, lr=0.002, schedule="cosine"),
    )
    gate = uclearn.Gate(max_drop=0.02, canary=200)

    print("January to March: the first three types of machine.")
    for machine in MACHINES[:3]:
        _learn(learner, gate, machine)

    print("\nApril: more of the pumps, but whoever labelled them took one fault for another.")
    x, y = month(MACHINES[0], seed=1)
    confused = np.array([0, 2, 1, 3])[y]
    update = learner.learn((x, confused), name="more pumps", task="pump", gate=gate)
    print(f"  {update.decision}: {update.reason}")
    print("  the model in use is what it was, to the bit; with the labels put right:")
    update = learner.learn((x, y), name="more pumps, again", task="pump", gate=gate)
    print(f"  {update.decision}. {update.reason}")
    _learn(learner, gate, MACHINES[3])

    print("\nMay: how much room is left?")
    print(_indented(str(learner.capacity())))
    learner.widen(1.5)
    print("  widened by half; what the network answers stays the same:")
    _learn(learner, gate, MACHINES[4])
    learner.save(folder / "machines")

    print("\nJune: what was saved goes on, on another computer.")
    learner = uclearn.Learner.load(folder / "machines")
    _learn(learner, gate, MACHINES[5])
    learner.save(folder / "machines")
    x, y = month(MACHINES[0], 400, seed=2)
    answer = learner.predict(x, task="pump", uncertainty=True)
    assert answer.labels is not None
    right = (answer.labels.numpy() == y).mean()
    print(f"  pumps, first learned in January: {right:.1%} of new signals are told right")

    print("\nFor the control room: a small network in a file that needs no torch.")
    exported = learner.export(folder / "machines.onnx", prune=0.01)
    print(f"  {exported}")
    return learner


def _learn(learner: uclearn.Learner, gate: uclearn.Gate, machine: Machine) -> None:
    update = learner.learn(month(machine), name=machine.name, gate=gate, labels=FAULTS)
    print(f"  {machine.name}: {update.decision}. {update.reason}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        story(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            story(Path(made))
