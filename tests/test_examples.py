"""The examples run, and what they tell is true."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from uclearn.report import write_journal_report

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    """An example as a module of its own, fresh for each test."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_story_of_the_machines_runs_as_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import onnxruntime

    example = load("machine_faults")
    learner = example.story(tmp_path)
    told = capsys.readouterr().out
    journal = [(line.get("name"), line.get("decision")) for line in learner.journal]
    assert ("more pumps", "rejected") in journal
    assert ("more pumps, again", "accepted") in journal
    learned = [machine.name for machine in example.MACHINES]
    assert list(learner.tasks) == learned
    assert all((name, "accepted") in journal for name in learned)
    assert "widened by half" in told
    write_journal_report(tmp_path / "machines", tmp_path / "page.html")
    (turned_away,) = [line for line in learner.journal if line.get("decision") == "rejected"]
    page = (tmp_path / "page.html").read_text()
    assert f"more pumps, rejected. {turned_away['reason']}".replace("'", "&#x27;") in page

    session = onnxruntime.InferenceSession(tmp_path / "machines.onnx")
    x, y = example.month(example.MACHINES[0], 300, seed=5)
    (outputs,) = session.run(None, {session.get_inputs()[0].name: x})
    classes = len(example.FAULTS)
    assert outputs.shape == (300, classes * len(learned))
    assert (outputs[:, :classes].argmax(1) == y).mean() > 0.95  # still, after six months


def test_faults_can_be_heard_only_where_they_are(tmp_path: Path) -> None:
    example = load("machine_faults")
    chance = np.random.default_rng(0)
    pump = example.MACHINES[0]
    spectra = [
        np.abs(np.fft.rfft(example.signals(pump, np.full(50, fault), chance))).mean(0)
        for fault in range(len(example.FAULTS))
    ]
    hertz = np.fft.rfftfreq(example.SAMPLES, 1 / example.RATE)
    at = {place: int(np.abs(hertz - place).argmin()) for place in (24.0, 48.0, 700.0)}
    loudest = {place: int(np.argmax([s[at[place]] for s in spectra])) for place in at}
    assert loudest == {24.0: 1, 48.0: 2, 700.0: 3}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of transformers and peft
def test_the_story_of_the_language_model_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("peft", reason="peft is not installed")
    example = load("language_model")
    for name, value in {"BASE": 1200, "FURTHER": 128, "TEST": 48, "LENGTH": 32}.items():
        monkeypatch.setattr(example, name, value)
    monkeypatch.setattr(example, "AFTER", replace(example.AFTER, batch_size=8, lr=0.01))
    few = {label: example.METHODS[label] for label in ("fine-tuning", "UCL")}
    monkeypatch.setattr(example, "METHODS", few)
    before, told = example.compare(lambda _: None)
    assert before["manual"] < min(before[kind] for kind in ("Python", "C++", "licences"))
    plain, ucl = told["fine-tuning"], told["UCL"]
    assert plain.fresh["C++"] < 0.8 * before["C++"]  # adapters learn
    assert ucl.fresh["C++"] < before["C++"]
    assert ucl.final["manual"] < plain.final["manual"]
    rows = example.table(before, told).splitlines()
    assert len(rows) == 2 + 1 + 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of transformers
def test_the_story_of_the_vit_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    monkeypatch.delenv("UCLEARN_DATA", raising=False)
    example = load("small_vit")
    monkeypatch.setattr(example, "METHODS", {k: example.METHODS[k] for k in ("fine-tuning", "UCL")})
    sequence, told = example.compare()
    assert [task.name for task in sequence] == ["0123", "45", "67", "89"]
    plain, ucl = told["fine-tuning"], told["UCL"]
    assert plain.fresh[0] == ucl.fresh[0] > 0.9  # the same network to begin with
    assert min(ucl.fresh) > 0.75  # it learns
    assert ucl.final[0] > plain.final[0]  # and keeps what was there
    assert len(example.table(sequence, told).splitlines()) == 2 + 2
