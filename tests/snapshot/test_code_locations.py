"""Code locations of a recorded step are found again in a script that was edited since."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.session.test_replay import snapshot

from mothtrap.core.snapshots import (
    BatchHanded,
    ForwardCalled,
    RecordedStep,
    ReferenceDigests,
    Snapshot,
)
from mothtrap.snapshot.code_locations import (
    ANYWHERE,
    CodeLocations,
    Moved,
    line_digests,
    moved_since,
)

SCRIPT = """\
import torch

for x, y in loader:
    out = torch.log(model(x))
    loss = (out - y).mean()
    loss.backward()
"""


def recorded(folder: Path, *, digests: bool = True) -> Snapshot:
    """Record a step of `SCRIPT`, which is in the folder at that time."""
    (folder / "train.py").write_text(SCRIPT)
    events = (
        BatchHanded(loader=0, site="train.py:3", value=1),
        ForwardCalled(root="Net", site="train.py:4", args=1, kwargs=None),
    )
    return msgspec.structs.replace(
        snapshot(7),
        steps=(RecordedStep(step=7, events=events),),
        truth=ReferenceDigests(losses={"train.py:6": "a"}),
        lines={"train.py": line_digests(folder / "train.py")} if digests else {},
    )


def moved(folder: Path, one: Snapshot, script: str) -> Moved:
    (folder / "train.py").write_text(script)
    return moved_since(one, folder, ["train.py"])


def test_in_a_file_that_is_the_same_nothing_moved(tmp_path: Path) -> None:
    one = recorded(tmp_path)
    assert moved(tmp_path, one, SCRIPT) == {}
    places = CodeLocations()
    assert places.fits("train.py:3", "train.py:3")
    assert not places.fits("train.py:3", "train.py:4")


def test_a_line_above_shifts_what_is_below(tmp_path: Path) -> None:
    script = SCRIPT.replace("    out =", "    # the logarithm of 0\n    out =")
    found = moved(tmp_path, recorded(tmp_path), script)
    assert found == {"train.py:4": (5, 5), "train.py:6": (7, 7)}
    assert CodeLocations(found).now("train.py:4") == "train.py:5"
    assert not CodeLocations(found).fits("train.py:4", "train.py:4")


def test_a_line_that_is_rewritten_is_one_of_those_in_its_place(tmp_path: Path) -> None:
    """A line that is indented or dedented remains the same line."""
    script = SCRIPT.replace("out = torch.log(model(x))", "out = model(x)\n    out = safe_log(out)")
    found = moved(tmp_path, recorded(tmp_path), script.replace("    loss.b", "  loss.b"))
    assert found == {"train.py:4": (4, 5), "train.py:6": (7, 7)}
    places = CodeLocations(found)
    fits = [line for line in range(9) if places.fits("train.py:4", f"train.py:{line}")]
    assert fits == [4, 5]
    assert not places.fits("train.py:4", "other.py:4")
    assert places.now("train.py:4") is None


@pytest.mark.parametrize("digests", [True, False])
def test_what_cannot_be_followed_may_lie_anywhere_in_its_file(
    tmp_path: Path, digests: bool
) -> None:
    """A line that was removed, and a snapshot without digests of lines."""
    one = recorded(tmp_path, digests=digests)
    script = SCRIPT.replace("    out = torch.log(model(x))\n", "") + "again(model)\n"
    found = moved(tmp_path, one, script)
    assert found["train.py:4"] == ANYWHERE
    assert CodeLocations(found).fits("train.py:4", "train.py:99")
    assert not digests or found["train.py:6"] == (5, 5)


def test_losses_go_by_the_places_at_which_they_are_found() -> None:
    places = CodeLocations({"a.py:6": (7, 9), "a.py:20": (20, 30)})
    expected = {"a.py:6": "one", "a.py:6#2": "two", "a.py:8": "three", "a.py:20": "four"}
    found = ["a.py:9", "a.py:8", "a.py:9#2"]
    assert places.renamed(expected, found) == {
        "a.py:9": "one",
        "a.py:9#2": "two",
        "a.py:8": "three",
        "a.py:20": "four",
    }


def test_a_file_that_cannot_be_read_has_no_digests(tmp_path: Path) -> None:
    assert line_digests(tmp_path / "absent.py") == ()
