"""`mothtrap run --recheck` reports whether a bad step gives the same bits again."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.rechecking import concluded

from mothtrap.core.errors import ReplayError
from mothtrap.core.replays import Difference, ReplayResult
from mothtrap.session import folder_copy
from mothtrap.session.folder_copy import command_in, copy_folder
from mothtrap.session.rechecking import conclusion
from mothtrap.session.repeatability import NOT_DETERMINISTIC, REPEATABLE, TRANSIENT

DIFFERS = Difference(kind="gradient", name="w", found="a", expected="b")
SAME = ReplayResult(reached=True, match=True)
OTHER = ReplayResult(reached=True, match=False, difference=DIFFERS)
UNKNOWN = ReplayResult(reached=True)


@pytest.mark.parametrize(
    ("result", "warnings", "said"),
    [
        (SAME, (), REPEATABLE),
        (OTHER, (TRANSIENT,), TRANSIENT),
        (OTHER, (NOT_DETERMINISTIC,), NOT_DETERMINISTIC),
        (OTHER, ("the run used torch 1",), "no conclusion: the run used torch 1"),
        (UNKNOWN, (), "no conclusion: the step could not be compared with the run"),
    ],
)
def test_a_conclusion_follows_from_the_bits(
    result: ReplayResult, warnings: tuple[str, ...], said: str
) -> None:
    assert conclusion((result,), warnings) == said


def test_a_copy_has_no_runs_and_no_hidden_folders(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    for name in ("runs/a", ".git", "data"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text(name, encoding="utf-8")
    copy_folder(folder, tmp_path / "copy", folder / "runs")
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["data"]
    words = command_in(["python", f"{folder}/train.py", "--n", "3"], folder, tmp_path / "copy")
    assert words == ("python", f"{tmp_path / 'copy'}/train.py", "--n", "3")


def test_a_large_folder_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "data").write_bytes(b"x" * 100)
    monkeypatch.setattr(folder_copy, "MAX_BYTES", 99)
    with pytest.raises(ReplayError, match="so it is not copied"):
        copy_folder(tmp_path / "project", tmp_path / "copy", tmp_path / "runs")
    assert not (tmp_path / "copy").exists()


@pytest.mark.full
@pytest.mark.parametrize("kind", ["flip", "bug", "noise"])
def test_a_flipped_bit_a_bug_and_noise_are_distinguished(kind: str, tmp_path: Path) -> None:
    assert concluded(kind, 3, tmp_path) == kind
