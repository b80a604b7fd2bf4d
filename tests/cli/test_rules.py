"""`mothtrap rules` and `mothtrap rule`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mothtrap.cli import main
from mothtrap.monitor.catalogue import rule_classes


def test_rules_lists_every_rule_on_one_line() -> None:
    listed = CliRunner().invoke(main, ["rules"])
    lines = listed.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[r.code, r.name()] for r in rule_classes()]
    assert "in brackets: the statistics that a rule needs" in listed.stderr


def test_rules_as_json_can_be_read_by_a_program() -> None:
    rows = json.loads(CliRunner().invoke(main, ["rules", "--format", "json"]).output)
    assert [row["code"] for row in rows] == [rule.code for rule in rule_classes()]
    assert all(set(row) == {"code", "name", "summary", "needs", "explains"} for row in rows)
    assert {row["code"]: row["needs"] for row in rows}["GRD101"] == ["gradient l2"]


def test_rules_of_a_configured_file_are_listed_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import mothtrap\n@mothtrap.rule('ZZZ901')\ndef odd_step(window):\n    'Odd.'\n"
    (tmp_path / "mine.py").write_text(source)
    (tmp_path / "mothtrap.toml").write_text('rule-files = ["mine.py"]\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert "ZZZ901  odd_step" in CliRunner().invoke(main, ["rules"]).output
    assert CliRunner().invoke(main, ["rule", "odd_step"]).output.startswith("ZZZ901 odd_step\n")


@pytest.mark.parametrize(
    "word", ["STR701", "str701", "softmax_before_cross_entropy", "softmax-before-cross-entropy"]
)
def test_rule_is_found_by_code_and_by_name(word: str) -> None:
    shown = CliRunner().invoke(main, ["rule", word])
    assert shown.exit_code == 0
    assert shown.output.startswith("STR701 softmax_before_cross_entropy\n")
    assert "What to do" in shown.output
