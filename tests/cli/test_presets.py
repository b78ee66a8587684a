"""`uclearn presets`."""

from __future__ import annotations

from tests.cli.terminal import Uclearn


def test_presets_show_every_value_with_its_source(uclearn: Uclearn) -> None:
    words = ["presets", "permuted-mnist", "--preset", "paper", "--json"]
    lines = {str(line["key"]): line for line in uclearn(*words).lines()}
    assert lines["ucl.beta"] == {
        "key": "ucl.beta",
        "value": 0.03,
        "source": "paper, supplement 5.1.1",
    }
    assert "plan.momentum" in lines
