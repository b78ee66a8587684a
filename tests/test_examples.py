"""The examples run, and what they tell is true."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    """An example as a module of its own, fresh for each test."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_loop_tells_what_fine_tuning_forgets_and_ucl_keeps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shortened to three tasks; the margin is what those few epochs surely give."""
    example = load("own_loop")
    monkeypatch.setattr(example, "TASKS", 3)
    monkeypatch.setattr(example, "EPOCHS", 5)
    example.main()
    told = capsys.readouterr().out
    rows = {
        line[:12].strip(): [int(cell) for cell in line[12:].replace("%", " ").split()]
        for line in told.splitlines()
        if "%" in line
    }
    assert list(rows) == ["fine-tuning", "UCL"]
    plain, ucl = rows["fine-tuning"], rows["UCL"]
    assert len(plain) == len(ucl) == 3 + 1  # tasks, and their average
    assert ucl[-1] >= plain[-1] + 10
    assert ucl[0] >= plain[0] + 20  # the first task is the oldest memory
    assert "fine-tuning forgets" in told.splitlines()[-1]


def test_own_loop_keeps_test_digits_out_of_training() -> None:
    example = load("own_loop")
    for task in example.permuted_digits(2):
        assert len(task.x) + len(task.x_test) == 1797
        assert len(task.x_test) == len(task.y_test) == 397
        assert float(task.x.max()) == 1.0
