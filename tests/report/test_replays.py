"""Result of a replay, in words and as JSON."""

from __future__ import annotations

import math

import msgspec
import pytest

from mothtrap.core import jsonable
from mothtrap.core.replays import Difference, ReplayResult
from mothtrap.core.snapshots import RecordedStep, ReferenceDigests, Snapshot
from mothtrap.report.replays import (
    all_match,
    as_json,
    as_text,
    is_mended,
    why_untested,
    worst,
)

SNAPSHOT = Snapshot(
    run="seen",
    attempt=1,
    worker=0,
    step=4771,
    state_step=4771,
    reason="unsound step: the loss is NaN",
    created_s=0.0,
    command=("python", "train.py"),
    cwd="/",
    python="3.11.7",
    framework="torch",
    versions={},
    steps=(RecordedStep(step=4771, events=(), losses=(math.nan,)),),
    state=None,
)
BAD = ReplayResult(
    reached=True,
    match=True,
    compared=5,
    losses=(math.nan,),
    nonfinite=True,
    nonfinite_gradients=("a", "b", "c", "d", "e"),
    operation="torch.log",
    module="head",
    location="train.py:26",
    told=("row 11 alone reproduces it",),
    rows=(11,),
)


def test_workers_of_which_nothing_could_be_compared_are_no_doubt_on_the_others() -> None:
    results = [
        msgspec.structs.replace(BAD, rank=0),
        msgspec.structs.replace(BAD, rank=1, match=None),
    ]
    head = as_text(SNAPSHOT, results, "seen").splitlines()[0]
    assert head.endswith("bit-identical on rank 0; the others could not be compared")


def test_what_was_compared_is_said() -> None:
    found = ReplayResult(reached=True, match=True, compared=1, losses_compared=1, losses=(1.0,))
    text = as_text(SNAPSHOT, [found], "seen")
    assert "bit-identical (only the loss: the run kept no gradients to compare)" in text


def test_a_match_says_operation_place_and_rows() -> None:
    text = as_text(SNAPSHOT, [BAD], "seen", warnings=["train.py was changed"])
    assert text.splitlines() == [
        "step 4771 of seen, replayed: bit-identical (5 digests)",
        "  loss: nan",
        "  not finite: gradient of a, b, c, d and 1 more",
        "  first bad: torch.log in head",
        "  --> train.py:26",
        "  row 11 alone reproduces it",
    ]


def test_a_difference_is_named_with_what_may_be_the_reason() -> None:
    difference = Difference(kind="gradient", name="w", found="1", expected="2")
    bad = ReplayResult(reached=True, match=False, difference=difference, nonfinite=True)
    text = as_text(SNAPSHOT, [bad], "seen", warnings=["train.py was changed"])
    assert "not identical: the gradient of w differs first" in text
    assert "  = note: train.py was changed" in text


def test_what_went_bad_in_the_run_and_is_in_order_here_is_said_first() -> None:
    difference = Difference(kind="loss", name="train.py:30", found="1", expected="2")
    mended = ReplayResult(reached=True, match=False, difference=difference, losses=(0.5633141,))
    text = as_text(SNAPSHOT, [mended], "seen", warnings=["train.py was changed"])
    assert text.splitlines() == [
        "step 4771 of seen, replayed: no fault here, unlike in the run",
        "  loss: nan in the run, 0.563314 here; it and all gradients are finite",
        "  = note: train.py was changed",
    ]
    found = as_json(SNAPSHOT, [mended])
    assert (found["match"], found["mended"]) == (False, True)
    assert math.isnan(found["losses_in_run"][0])


@pytest.mark.parametrize(
    "result",
    [
        ReplayResult(reached=True, match=None),
        ReplayResult(reached=True, match=False, nonfinite=True),
        ReplayResult(reached=True, match=False, exception="ValueError: other"),
    ],
)
def test_what_is_not_compared_or_bad_here_is_not_mended(result: ReplayResult) -> None:
    assert not is_mended(SNAPSHOT, [result])


def test_a_sound_step_that_differs_is_not_mended() -> None:
    steps = (RecordedStep(step=4771, events=(), losses=(1.0,)),)
    sound = msgspec.structs.replace(SNAPSHOT, reason="step", steps=steps)
    assert not is_mended(sound, [ReplayResult(reached=True, match=False)])


def test_an_exception_that_is_not_raised_any_more_is_named() -> None:
    raised = msgspec.structs.replace(
        SNAPSHOT,
        reason="exception",
        truth=ReferenceDigests(exception="IndexError: index 9 is out of bounds"),
        steps=(RecordedStep(step=4771, events=()),),
    )
    mended = ReplayResult(reached=True, match=False, losses=(0.5,))
    text = as_text(raised, [mended], "seen")
    assert text.splitlines()[1:] == [
        "  loss: 0.5 here; it and all gradients are finite",
        "  no exception here; in the run: IndexError: index 9 is out of bounds",
    ]


@pytest.mark.parametrize(
    ("nonfinite", "words"),
    [(True, "so the cause is the math"), (False, "the cause is the precision")],
)
def test_another_type_says_whether_precision_is_to_blame(nonfinite: bool, words: str) -> None:
    result = ReplayResult(reached=True, match=False, nonfinite=nonfinite)
    text = as_text(SNAPSHOT, [result], "seen", converted="float64")
    assert text.startswith("step 4771 of seen, replayed: in float64")
    assert words in text


def test_names_of_a_run_cannot_steer_the_terminal() -> None:
    result = msgspec.structs.replace(BAD, module="a\x1b[2J")
    assert "\x1b" not in as_text(SNAPSHOT, [result], "seen\x1b[2J")


def test_json_has_numbers_that_are_not_finite_as_words() -> None:
    found = msgspec.json.decode(jsonable.encode(as_json(SNAPSHOT, [BAD])))
    assert found["loss"] == "NaN"
    assert (found["step"], found["match"], found["rows"]) == (4771, True, [11])
    assert (found["module"], found["operation"]) == ("head", "torch.log")


def test_of_several_workers_the_one_that_tells_most_is_shown() -> None:
    plain = ReplayResult(reached=True, match=True, rank=0)
    bad = msgspec.structs.replace(BAD, rank=1)
    assert worst([plain, bad]).rank == 1
    assert all_match([plain, bad]) is True
    assert all_match([plain, msgspec.structs.replace(bad, match=False)]) is False
    assert all_match([plain, msgspec.structs.replace(bad, match=None)]) is None


def test_why_there_is_no_test_is_said() -> None:
    fine = ReplayResult(reached=True, match=True)
    refused = msgspec.structs.replace(BAD, untested="torch.log does not fail on its own")
    assert why_untested([fine]).startswith("the step has no fault here")
    assert why_untested([fine, refused]) == "torch.log does not fail on its own"
    assert why_untested([BAD]) == "the failure could not be narrowed down"
