"""Which tasks there are, and that they are what the paper trained on."""

import pytest

from uclearn.errors import SettingError
from uclearn.rl.catalogue import PAPER, SEQUENCES, sequence
from uclearn.rl.environments import survey

ROBOSCHOOL = [  # sizes of observations and actions in Roboschool 1.0, in the paper's order
    ("Walker2D", 22, 6),
    ("HumanoidFlagrun", 44, 17),
    ("Hopper", 15, 3),
    ("Ant", 28, 8),
    ("InvertedDoublePendulum", 9, 1),
    ("HalfCheetah", 26, 6),
    ("Humanoid", 44, 17),
    ("InvertedPendulum", 5, 1),
]


@pytest.mark.rl
def test_the_papers_tasks_have_roboschools_sizes() -> None:
    found = survey(PAPER)
    assert [
        (name.removesuffix("BulletEnv-v0"), spaces.observation_size, spaces.action_size)
        for name, spaces in found.items()
    ] == ROBOSCHOOL


@pytest.mark.rl
def test_every_other_named_environment_can_be_had() -> None:
    names = [name for names in SEQUENCES.values() for name in names if name not in PAPER]
    found = survey(names)
    assert found.keys() == set(names)
    assert found["Hopper-v5"][:2] == (11, 3)
    assert found["Pendulum-v1"] == (3, 1, (-2.0,), (2.0,))


def test_the_four_are_tasks_of_the_paper_in_its_order() -> None:
    robots = [name.removesuffix("BulletEnv-v0") for name in sequence("paper-4")]
    assert robots == ["Walker2D", "Hopper", "InvertedDoublePendulum", "HalfCheetah"]


@pytest.mark.parametrize("tasks", ["", "Pendulum-v1,,Hopper-v5", "Pendulum-v1,"])
def test_a_gap_in_the_list_is_refused(tasks: str) -> None:
    with pytest.raises(SettingError, match="`tasks` must be one of paper, paper-4, classic"):
        sequence(tasks)
