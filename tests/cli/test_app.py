"""All commands together: their help, and how they refuse."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.terminal import Uclearn
from uclearn.methods.registry import METHODS
from uclearn.runs.config import PRESETS
from uclearn.tasks.benchmarks import BENCHMARKS


def test_help_is_for_people_and_lists_every_command(uclearn: Uclearn) -> None:
    said = uclearn("--help")
    assert said.code == 0
    assert "Teach a neural network one task after another" in said.out
    for name in ("run", "compare", "ablate", "sweep", "reproduce", "resume", "runs", "report"):
        assert name in said.out
    for name in ("params", "benchmarks", "presets", "doctor", "data"):
        assert name in said.out


def test_choices_in_help_come_from_the_registries(uclearn: Uclearn) -> None:
    said = " ".join(uclearn("run", "--help").out.replace("│", " ").split())
    assert ", ".join(BENCHMARKS) in said
    assert ", ".join(METHODS) in said
    assert ", ".join(PRESETS) in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "mnist"], "There is no benchmark 'mnist'."),
        (["run", "--method", "elastic"], "There is no method 'elastic'."),
        (["run", "--set", "ucl.bata=1"], "There is no setting `ucl.bata`. Did you mean"),
        (["run", "--set", "ucl.beta=-1"], "`beta` must be 0 or greater and finite, got -1"),
        (
            ["run", "--preset", "worst"],
            "`preset` must be one of default, best, paper, got 'worst'.",
        ),
        (["run", "--quiet", "--json"], "`--quiet` and `--json` exclude each other"),
        (["run", "--config", "absent.toml"], "The file absent.toml cannot be read"),
        (["compare", "split-digits", "--methods", "ucl,ewcc"], "Did you mean 'ewc'?"),
        (["sweep", "split-digits"], "There is nothing to try"),
        (["sweep", "split-digits", "--paper-grid"], "The paper lists no grid for ucl on split-dig"),
        (["reproduce", "figure-99"], "There is no figure or stage 'figure-99'"),
        (["runs", "elsewhere"], "`folder` must be a folder, got elsewhere."),
        (["resume", "."], "There is no run at or below ."),
        (["report", "."], "There is no run at or below ."),
        (["params", "mnist"], "There is no benchmark 'mnist'."),
        (["params", "split-mnist", "--hidden", "4OO"], "as 400,400 or 8192x16, got '4OO'."),
        (["params", "omniglot", "--hidden", "400"], "must be left as it is for omniglot"),
        (["data", "get", "imagenet"], "There is no data set 'imagenet'."),
    ],
)
def test_what_is_refused_is_one_line_and_code_1(
    uclearn: Uclearn, words: list[str], message: str
) -> None:
    said = uclearn(*words)
    assert said.code == 1
    assert said.err.startswith("Error: ")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_what_cannot_be_parsed_is_code_2(uclearn: Uclearn) -> None:
    said = uclearn("run", "--seeds", "0")
    assert said.code == 2
    assert "Traceback" not in said.err


COMMAND = [sys.executable, "-m", "uclearn"]


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
def test_a_look_at_the_command_imports_no_torch(words: list[str]) -> None:
    code = "import sys, atexit; atexit.register(lambda: print('torch' in sys.modules)); "
    code += f"sys.argv = ['uclearn', *{words}]; from uclearn.cli.app import main; main()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "False"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "offered"),
    [("uclearn run perm", ["permuted-mnist", "permuted-digits"]), ("uclearn com", ["compare"])],
)
def test_the_shell_completes_commands_and_names(typed: str, offered: list[str]) -> None:
    last = str(len(typed.split()) - 1)
    asked = {"_UCLEARN_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": last}
    ran = subprocess.run(
        COMMAND, env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == offered
