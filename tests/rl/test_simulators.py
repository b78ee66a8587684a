"""What is said when an environment cannot be had."""

from pathlib import Path

import pytest

from tests.rl.strange import HERE
from uclearn.errors import SimulatorError
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
