"""Which tasks there are: named sequences of environments, and how to write one of your own."""

from __future__ import annotations

from uclearn.errors import SettingError

PAPER = (
    "Walker2DBulletEnv-v0",
    "HumanoidFlagrunBulletEnv-v0",
    "HopperBulletEnv-v0",
    "AntBulletEnv-v0",
    "InvertedDoublePendulumBulletEnv-v0",
    "HalfCheetahBulletEnv-v0",
    "HumanoidBulletEnv-v0",
    "InvertedPendulumBulletEnv-v0",
)
"""The eight tasks of the paper, in its order. It used Roboschool; these are the same robots in
PyBullet, Roboschool's successor, with Roboschool's own sizes of observations and actions (the
paper's table misprints five of the eight)."""

SEQUENCES: dict[str, tuple[str, ...]] = {
    "paper": PAPER,
    "paper-4": (PAPER[0], PAPER[2], PAPER[4], PAPER[5]),
    "classic": ("Pendulum-v1", "MountainCarContinuous-v0"),
    "mujoco": (
        "Walker2d-v5",
        "Hopper-v5",
        "Ant-v5",
        "InvertedDoublePendulum-v5",
        "HalfCheetah-v5",
        "Humanoid-v5",
        "InvertedPendulum-v5",
    ),
}
"""Sequences by name. `paper-4` is the four tasks of the paper that are quick to simulate, `classic`
needs no simulator but gymnasium, `mujoco` is the paper's robots in MuJoCo (which has no flag run;
`pip install "gymnasium[mujoco]"`)."""


def sequence(tasks: str) -> tuple[str, ...]:
    """The environments behind the name of a sequence, or behind a list of ids with commas.

    An id is one that `gymnasium.make` knows; `module:Id-v0` imports the module first, which is how
    environments of your own are found.

    >>> sequence("classic")
    ('Pendulum-v1', 'MountainCarContinuous-v0')
    >>> sequence("HopperBulletEnv-v0, Pendulum-v1")
    ('HopperBulletEnv-v0', 'Pendulum-v1')
    """
    if tasks in SEQUENCES:
        return SEQUENCES[tasks]
    names = tuple(name.strip() for name in tasks.split(","))
    if not all(names):
        raise SettingError(
            f"`tasks` must be one of {', '.join(SEQUENCES)}, or ids of environments with commas "
            f"between them, got {tasks!r}. For example: {','.join(SEQUENCES['classic'])}."
        )
    return names
