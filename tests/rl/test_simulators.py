"""What is said when an environment cannot be had."""

from pathlib import Path

import pytest

from tests.rl.strange import HERE
from uclearn.errors import SimulatorError
from uclearn.rl import environments
from uclearn.rl.environments import survey

pytestmark = pytest.mark.rl


@pytest.mark.parametrize(
    ("package", "name", "remedy"),
    [
        ("gymnasium", "Pendulum-v1", "uclearn[rl]"),
        ("pybullet_envs_gymnasium", "HopperBulletEnv-v0", "uclearn[rl]"),
        ("pybullet", "HopperBulletEnv-v0", "uclearn[rl]"),
        ("mujoco", "Hopper-v5", "gymnasium[mujoco]"),
        ("imageio", "Hopper-v5", "gymnasium[mujoco]"),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(
    package: str, name: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')"
    (tmp_path / f"{package}.py").write_text(absent)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(environments, "_SURVEYED", {})  # another test may have found them
    with pytest.raises(SimulatorError) as caught:
        survey([name])
    message = str(caught.value)
    assert message.startswith(f"The environment {name!r} needs a package that is not installed (")
    assert message.endswith(f'Install it: pip install "{remedy}"')
    assert package in message


@pytest.mark.parametrize("name", ["NoSuch-v0", "NoSuchBulletEnv-v0", f"{HERE}:NoSuch-v0"])
def test_an_unknown_id_is_named_with_what_is_known(name: str) -> None:
    with pytest.raises(SimulatorError, match=rf"no environment '{name}'.*paper, paper-4, classic"):
        survey([name])


def test_a_module_that_cannot_be_found_is_named() -> None:
    with pytest.raises(SimulatorError, match=r"'nowhere:Id-v0'.*No module named 'nowhere'.*mend"):
        survey(["nowhere:Id-v0"])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Keyed", r"The observation space of .*Keyed-v0' must be a Box .* got Dict\('angle'.*Only"),
        ("Switched", r"The action space of .*Switched-v0' must be a Box .* got Discrete\(3\)"),
    ],
)
def test_only_boxes_are_supported(name: str, message: str) -> None:
    with pytest.raises(SimulatorError, match=message):
        survey([f"{HERE}:{name}-v0"])


def test_bounds_are_read_number_by_number() -> None:
    (spaces,) = survey([f"{HERE}:Counter-v0"]).values()
    assert spaces == (3, 2, (-1.0, -2.0), (1.0, float("inf")))
