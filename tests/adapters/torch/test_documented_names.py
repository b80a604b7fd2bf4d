"""The script in `docs/pytorch.md` has the tensors that the page lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.adapters.torch.watched import watched, whole

from mothtrap.adapters.torch import REPORTS

PAGE = Path(__file__).parents[3] / "docs" / "pytorch.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_script_has_the_tensors_that_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [script], [listed] = blocks("python"), blocks("text")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(script, encoding="utf-8")
    with watched(capture=whole(*REPORTS.kinds)) as seen:
        exec(compile(script, str(path), "exec"), {"__name__": "__main__"})
    expected = {identity for identity in seen.kept() if ":head" not in identity}
    assert set(listed.split("\n")) - {""} == expected


def test_every_kind_is_described() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert described == REPORTS.kinds - {"metric"}
