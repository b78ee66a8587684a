"""`uclearn params`."""

from __future__ import annotations

from tests.cli.terminal import Uclearn
from uclearn.methods.registry import METHODS


def test_table_1_stands_beside_the_papers(uclearn: Uclearn) -> None:
    lines = {
        str(line["label"]): line for line in uclearn("params", "split-mnist", "--json").lines()
    }
    assert set(METHODS) <= set(lines)
    assert lines["ucl, noisy_bias"]["kept"] == 538_122
    assert lines["ucl"]["paper"] == 538
    assert "269,322" in uclearn("params", "split-mnist").out


def test_params_of_a_network_that_no_computer_here_could_hold(uclearn: Uclearn) -> None:
    lines = uclearn("params", "permuted-mnist", "--hidden", "8192x16", "--ranks", "8", "--json")
    large = {line["method"]: line for line in lines.lines()}
    plain = 784 * 8192 + 15 * 8192**2 + 8192 * 10 + 16 * 8192 + 10
    assert large["finetuning"]["kept"] == plain
    assert large["finetuning"]["bytes_learning"] == 4 * 4 * plain  # weights, gradients, two moments
    assert large["finetuning"]["bytes_sent"] == 2 * 7 / 8 * 4 * plain
    shown = uclearn("params", "permuted-mnist", "--hidden", "400,200x2", "--ranks", "2").out
    assert "sent per step" in shown
    assert "paper" not in shown  # whose networks are others
