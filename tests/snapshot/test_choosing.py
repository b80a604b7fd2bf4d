"""Of the snapshots of a run, the most informative one comes first."""

from __future__ import annotations

import pytest

from mothtrap.snapshot.choosing import is_offered, rank

BAD = "unsound step: the loss is NaN"


@pytest.mark.parametrize(
    ("every", "first"),
    [
        ([(640, "request", True), (1254, "finding GRD101", True)], 1254),
        ([(640, "request", True), (1254, BAD, True), (1300, BAD, True)], 1254),
        ([(3, "finding LSS101", True), (27, BAD, True)], 27),
        ([(3, "step", True), (9, "request", True)], 9),
        ([(0, "finding LSS501", False), (9, "request", True)], 9),
        ([(0, "finding LSS501", False), (4, "base", True)], 0),
        ([(7, "exception", True), (5, "finding GRD101", True)], 7),
        ([(5, "finding GRD101", True), (8, "finding LSS101", True)], 5),
    ],
)
def test_what_went_bad_comes_before_what_was_asked_for(
    every: list[tuple[int, str, bool]], first: int
) -> None:
    chosen = min(every, key=lambda one: rank(step=one[0], reason=one[1], exact=one[2]))
    assert chosen[0] == first


def test_of_findings_that_of_the_diagnosis_comes_first() -> None:
    def place(step: int, code: str) -> object:
        return rank(
            step=step, reason=f"finding {code}", exact=True, root_step=7, root_code="GRD101"
        )

    assert place(9, "GRD101") < place(5, "LSS101")  # type: ignore[operator]
    assert place(7, "LSS101") < place(9, "GRD101")  # type: ignore[operator]


@pytest.mark.parametrize("reason", ["request", "step", "exception"])
def test_what_was_asked_for_is_offered_with_a_later_state_too(reason: str) -> None:
    assert is_offered(reason, exact=False)


def test_a_finding_is_offered_with_its_own_state_alone() -> None:
    assert is_offered("finding STR701", exact=True)
    assert not is_offered("finding STR701", exact=False)
