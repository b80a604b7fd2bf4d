"""The defects that are planted to validate the tests can still be planted."""

from __future__ import annotations

from pathlib import Path

from scripts.planted_defects import DEFECTS

ROOT = Path(__file__).parents[1]


def test_every_defect_is_one_line_of_a_file_and_has_tests() -> None:
    for defect in DEFECTS:
        text = (ROOT / "src" / "mothtrap" / defect.path).read_text(encoding="utf-8")
        assert text.count(defect.old) == 1, f"{defect.name}: not once in {defect.path}"
        assert defect.new != defect.old
        for test in defect.tests:
            assert (ROOT / test.partition("::")[0]).exists(), f"{defect.name}: no {test}"
