"""Order in which kept steps are offered."""

from __future__ import annotations

import pytest
from tests.report.faulty_run import exploding

from mothtrap.report.kept import KeptSnapshot, kept_lines
from mothtrap.report.style import Style


def kept(step: int, reason: str, exact: bool = True, scripted: bool = True) -> KeptSnapshot:
    return KeptSnapshot(step=step, reason=reason, exact=exact, scripted=scripted)


SNAPSHOTS = (kept(0, "finding STR701"), kept(1, "finding GRD101"), kept(71, "nonfinite"))


@pytest.mark.parametrize(
    ("snapshots", "step"),
    [
        (SNAPSHOTS, 71),
        (SNAPSHOTS[:2], 1),
        (SNAPSHOTS[:1], 0),
        ((SNAPSHOTS[0], kept(71, "nonfinite", exact=False)), 0),
        (
            (kept(71, "request", exact=False),),
            "71 (from a later state, so there is nothing to compare with)",
        ),
        ((kept(71, "x", scripted=False),), "71 --build MODULE:FUNCTION"),
        ((kept(71, "exception"),), "71 --pdb"),
    ],
)
def test_the_step_of_the_root_is_offered_if_it_is_kept(
    snapshots: tuple[KeptSnapshot, ...], step: int | str
) -> None:
    [line] = kept_lines("x", snapshots, Style(), exploding(step=71))
    assert line.endswith(f": mothtrap replay x --step {step}")


def test_a_step_that_went_bad_is_offered_before_one_that_was_asked_for() -> None:
    snapshots = (kept(640, "request"), kept(1254, "finding LSS101"), kept(1300, "unsound step: x"))
    [line] = kept_lines("x", snapshots[:2], Style())
    assert line == "  can be replayed: steps 640, 1254: mothtrap replay x --step 1254"
    [line] = kept_lines("x", snapshots, Style(), exploding(step=640))
    assert line.endswith(" --step 1300")


def test_steps_with_nothing_to_compare_with_are_left_out_beside_others() -> None:
    snapshots = (kept(0, "finding LSS501", exact=False), kept(27, "unsound step: x"))
    assert kept_lines("x", snapshots, Style()) == [
        "  can be replayed: step 27: mothtrap replay x --step 27"
    ]


def test_a_finding_whose_state_is_later_is_not_offered() -> None:
    late = kept(0, "finding STR701", exact=False)
    assert kept_lines("x", (late,), Style()) == []
    [line] = kept_lines("x", (late, kept(4, "step", exact=False)), Style())
    assert line.startswith("  can be replayed: step 4: ")


def test_without_a_finding_the_first_is_offered() -> None:
    assert kept_lines("x", SNAPSHOTS, Style()) == [
        "  can be replayed: steps 0, 1, 71: mothtrap replay x --step 0"
    ]
