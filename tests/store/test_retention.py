"""Removal of runs: by number, age and size together; and how one is removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mothtrap.store.retention import GONE, StoredRun, measure, remove, superfluous, sweep

NOW_S = 1e6


def run(name: str, *, size: int = 100, age_s: float = 0.0, kept: str = "") -> StoredRun:
    return StoredRun(path=Path(name), size_bytes=size, touched_s=NOW_S - age_s, kept=kept)


RUNS = [run("new", age_s=1), run("live", age_s=5, kept="running"), run("mid", age_s=20)]
RUNS += [run("old", age_s=30)]


@pytest.mark.parametrize(
    ("limits", "gone"),
    [
        ({"keep": 1}, ["old", "mid"]),
        ({"keep": 0}, ["old", "mid", "new"]),
        ({"keep": 3}, ["old"]),
        ({"keep": 9}, []),
        ({"older_than_s": 25}, ["old"]),
        ({"older_than_s": 3}, ["old", "mid"]),
        ({"older_than_s": 3, "keep": 3}, ["old"]),
        ({"max_bytes": 400}, []),
        ({"max_bytes": 399}, ["old"]),
        ({"max_bytes": 250}, ["old", "mid"]),
        ({"max_bytes": 0}, ["old", "mid", "new"]),
        ({"max_bytes": 0, "keep": 1}, ["old", "mid"]),
        ({"max_bytes": 350, "older_than_s": 15}, ["old", "mid"]),
        ({"max_bytes": 150, "older_than_s": 25}, ["old", "mid", "new"]),
    ],
)
def test_limits_choose_the_oldest_and_never_what_must_stay(
    limits: dict[str, float], gone: list[str]
) -> None:
    chosen = superfluous(RUNS, now_s=NOW_S, **limits)  # type: ignore[arg-type]
    assert [str(chosen_run.path) for chosen_run, _ in chosen] == gone


def test_the_reason_is_that_of_the_limit() -> None:
    chosen = superfluous(RUNS, older_than_s=25, max_bytes=250, now_s=NOW_S)
    reasons = {str(chosen_run.path): reason for chosen_run, reason in chosen}
    assert reasons == {"old": "too old", "mid": "above the size limit"}


def test_measuring_counts_files_and_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"\0" * 10_000)
    folder = tmp_path / "run"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "x").write_bytes(b"\0" * 100)
    (folder / "link").symlink_to(tmp_path / "large")
    assert 100 < measure(folder).size_bytes < 1000


def test_a_removed_run_is_gone_and_nothing_else_is(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1" / "x").write_text("x")
    remove(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_what_an_interrupted_removal_left_is_swept_up(tmp_path: Path) -> None:
    (tmp_path / f"{GONE}1" / "1").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
