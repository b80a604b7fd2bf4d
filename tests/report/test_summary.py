"""The summary: verdict sentences and the JSON that others read."""

from __future__ import annotations

import dataclasses
import json
import signal

import msgspec
import pytest
from tests.report.faulty_run import HandMadeRun, exploding, rule

from mothtrap.core import jsonable
from mothtrap.core.facts.captures import Blind, Dropped, ToolError
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.findings import RuleState, Severity
from mothtrap.core.runs import RunEnd, RunInfo
from mothtrap.report.baseline import Baseline, Known
from mothtrap.report.summary import RunSummary, summarize

EXPLAINS = {"GRD101": frozenset({"NUM001"})}
JUDGED = (
    rule("NUM001", "nonfinite_loss", RuleState.OK),
    rule("LOS401", "loss_not_decreasing", RuleState.NOT_ENOUGH_DATA, "needs 200 steps"),
)


def summary_of(run: HandMadeRun) -> RunSummary:
    return summarize(run, EXPLAINS)  # type: ignore[arg-type]


def test_the_verdict_is_the_worst_root() -> None:
    nan = exploding(
        code="NUM001", name="nonfinite_loss", step=90, fingerprint="bbbb", layers=(), fixes=()
    )
    note = exploding(code="STR701", severity=Severity.INFO, step=0, fingerprint="cccc")
    summary = summary_of(HandMadeRun(findings=(note, nan, exploding()), rules=JUDGED))
    assert "xploding gradient" in summary.verdict
    assert "step 71" in summary.verdict
    assert summary.diagnosis[0].root == "aaaa"
    assert summary.diagnosis[0].effects == ("bbbb",)


def test_a_clean_run_says_how_much_was_judged() -> None:
    verdict = summary_of(HandMadeRun(rules=JUDGED)).verdict
    assert verdict == "Nothing wrong was found in 120 steps (1 rule ok, 1 needs more data)."


def test_a_note_is_no_fault() -> None:
    note = exploding(severity=Severity.INFO)
    assert summary_of(HandMadeRun(findings=(note,), rules=JUDGED)).verdict == (
        "No error or warning in 120 steps, 1 note (GRD101 exploding gradient)."
    )


@pytest.mark.parametrize(
    ("run", "part"),
    [
        (HandMadeRun(state="running", rules=JUDGED), "the job is still running"),
        (
            HandMadeRun(state="crashed", rules=JUDGED, end=RunEnd(exit_code=-9, ended_s=0.0)),
            "The job was killed by signal SIGKILL after 120 steps; nothing wrong was found in",
        ),
        (
            HandMadeRun(state="crashed", rules=JUDGED, end=RunEnd(exit_code=7, ended_s=0.0)),
            "The job ended with exit code 7; nothing",
        ),
        (HandMadeRun(state="crashed", rules=JUDGED), "stopped without closing its run"),
        (
            HandMadeRun(rules=JUDGED, tool_errors=(ToolError(step=1, part="writer", error="x"),)),
            "a part of mothtrap failed",
        ),
        (HandMadeRun(), "no rule was selected"),
        (HandMadeRun(damage=("1/run.json: torn",)), "the findings cannot be read"),
        (HandMadeRun(rules=JUDGED[1:], steps=1), "evaluated in 1 step: no rule had enough data"),
        (
            HandMadeRun(tool_errors=(ToolError(step=1, part="rules", error="x"),)),
            "evaluated in 120 steps: mothtrap failed in rules (x)",
        ),
        (HandMadeRun(steps=0, workers=()), "Nothing was observed: no process of the job"),
        (
            HandMadeRun(steps=0, workers=(), end=RunEnd(exit_code=1, ended_s=0.0)),
            "Nothing was observed: exit code 1 before any optimizer step.",
        ),
        (HandMadeRun(steps=0), "Nothing was observed: a process trained, but no step"),
        (
            HandMadeRun(steps=0, blind=(Blind(step=0, what="job", reason="torch not imported"),)),
            "Nothing was observed: torch not imported.",
        ),
        (HandMadeRun(steps=0, damage=("w0: torn",)), "the stored data cannot be read"),
        (HandMadeRun(steps=0, state="running"), "Waiting for the first step."),
        (
            HandMadeRun(steps=0, workers=(), state="crashed", end=RunEnd(exit_code=2, ended_s=0.0)),
            "exit code 2 before any optimizer step",
        ),
    ],
)
def test_the_verdict_says_what_limits_it(run: HandMadeRun, part: str) -> None:
    assert part in summary_of(run).verdict


def test_steps_that_could_not_be_stored_are_counted_in_the_verdict() -> None:
    lost = Dropped(step=9, what="steps", count=332, reason="OSError: No space left on device")
    unseen = Dropped(step=9, what="steps", count=7, reason="rules queue full")
    verdict = summary_of(HandMadeRun(rules=JUDGED, observed=(lost, unseen))).verdict
    assert "; 332 steps lost" in verdict


def test_the_exception_that_ended_the_script_is_named() -> None:
    ended = WorkerEnded(step=9, steps=9, own_s=0.0, wall_s=1.0, exception="ValueError: bad x")
    run = HandMadeRun(
        state="crashed", rules=JUDGED, end=RunEnd(exit_code=1, ended_s=0.0), observed=(ended,)
    )
    assert summary_of(run).verdict.startswith(
        "The job ended with ValueError: bad x; before that, nothing wrong was found in 120 steps"
    )
    placed = msgspec.structs.replace(ended, location="train.py:12")
    known = summary_of(dataclasses.replace(run, observed=(placed,)))
    assert known.verdict.startswith(
        "The job ended with ValueError at train.py:12: bad x; before that, nothing"
    )


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            "InvalidArgumentError: Graph execution error:\n\nDetected at node a/b\n  File x\n\n"
            "indices[0,29] = 400 is not in [0, 400)\n\t [[{{node a/b}}]]",
            "ended with InvalidArgumentError at train.py:12: Graph execution error: indices[0,29] "
            "= 400 is not in [0, 400); before that,",
        ),
        (
            "RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing key(s): a.",
            "ended with RuntimeError at train.py:12: Error(s) in loading state_dict for Net; ",
        ),
        ("AssertionError: ", "ended with AssertionError at train.py:12; before that,"),
    ],
)
def test_an_exception_whose_first_line_is_a_heading_is_told_by_its_message(
    error: str, told: str
) -> None:
    about = {"own_s": 0.0, "wall_s": 1.0, "location": "train.py:12"}
    ended = WorkerEnded(step=1, steps=1, exception=error, **about)  # type: ignore[arg-type]
    end = RunEnd(exit_code=1, ended_s=0.0)
    run = HandMadeRun(state="crashed", rules=JUDGED, steps=1, end=end, observed=(ended,))
    assert f"The job {told}" in summary_of(run).verdict


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (
            "ValueError: bad x",
            "The job ended with ValueError at train.py:12 before its first optimizer step: bad x.",
        ),
        (
            "KeyboardInterrupt: ",
            "Nothing was observed: the job was interrupted (Ctrl-C) before its first optimizer "
            "step.",
        ),
    ],
)
def test_an_exception_before_the_first_step_is_the_verdict(error: str, verdict: str) -> None:
    about = {"own_s": 0.0, "wall_s": 0.0, "location": "train.py:12"}
    ended = WorkerEnded(step=0, steps=0, exception=error, **about)  # type: ignore[arg-type]
    end = RunEnd(exit_code=1, ended_s=0.0)
    run = HandMadeRun(state="crashed", steps=0, end=end, observed=(ended,))
    assert summary_of(run).verdict == verdict
    if error.startswith("ValueError"):
        why = Blind(step=0, what="the training", reason="backward ran 3 times.")
        both = summary_of(dataclasses.replace(run, observed=(ended, why), blind=(why,))).verdict
        assert both == (
            "Nothing was observed: backward ran 3 times. "
            "The job ended with ValueError at train.py:12: bad x."
        )


def test_the_end_of_a_job_is_told_beside_what_was_found() -> None:
    killed = HandMadeRun(
        findings=(exploding(),), state="crashed", end=RunEnd(exit_code=-9, ended_s=0.0)
    )
    assert summary_of(killed).verdict.endswith(
        "The job was killed by signal SIGKILL after 120 steps."
    )
    ended = HandMadeRun(findings=(exploding(),), end=RunEnd(exit_code=0, ended_s=0.0))
    assert "The job" not in summary_of(ended).verdict


@pytest.mark.parametrize("exit_code", [1, 130, -signal.SIGINT])
def test_an_interrupt_is_no_error_of_the_script(exit_code: int) -> None:
    error = "KeyboardInterrupt: " if exit_code > 0 else None
    ended = WorkerEnded(step=9, steps=9, own_s=0.0, wall_s=1.0, exception=error)
    end = RunEnd(exit_code=exit_code, ended_s=0.0)
    run = HandMadeRun(state="crashed", rules=JUDGED, end=end, observed=(ended,))
    verdict = summary_of(run).verdict
    assert verdict.startswith("The job was interrupted (Ctrl-C) after 120 steps; nothing wrong")


def test_a_script_that_failed_after_its_training_is_told() -> None:
    run = HandMadeRun(rules=JUDGED, end=RunEnd(exit_code=3, ended_s=0.0))
    assert summary_of(run).verdict.startswith("The job ended with exit code 3; nothing")


@pytest.mark.parametrize(("count", "told"), [(1, "1 known finding"), (3, "3 known findings")])
def test_findings_of_a_baseline_are_not_called_nothing_wrong(count: int, told: str) -> None:
    findings = tuple(exploding(fingerprint=str(number)) for number in range(count))
    known = [
        Known(fingerprint=f.fingerprint, severity=f.severity, code=f.code, name=f.name)
        for f in findings
    ]
    run = HandMadeRun(findings=findings, rules=JUDGED)
    summary = summarize(run, EXPLAINS, baseline=Baseline(findings=tuple(known)))  # type: ignore[arg-type]
    assert summary.verdict == f"Nothing new was found in 120 steps; {told} hidden."


def test_a_run_without_a_loss_says_how_to_hand_it_over() -> None:
    unseen = Blind(step=0, what="the loss", reason="it was not named")
    verdict = summary_of(HandMadeRun(rules=JUDGED, blind=(unseen,))).verdict
    assert "no loss was recorded: pass it with dbg.step(loss=loss)" in verdict


def test_an_unknown_signal_is_named_by_its_number() -> None:
    number = signal.NSIG + 100
    end = RunEnd(exit_code=-number, ended_s=0.0)
    assert (
        f"signal {number}"
        in summary_of(HandMadeRun(state="crashed", end=end, steps=0, workers=())).verdict
    )


def test_the_json_has_the_agreed_keys_and_truthful_numbers() -> None:
    run = HandMadeRun(findings=(exploding(),), rules=JUDGED)
    data = json.loads(jsonable.encode(summary_of(run)))
    assert list(data) == [
        "run",
        "verdict",
        "diagnosis",
        "findings",
        "rules",
        "blind",
        "overhead",
        "after",
    ]
    assert set(data["run"]) == {"id", "kind", "path", "attempts", "state", "steps", "workers"}
    assert data["findings"][0]["evidence"] == {"value": "NaN"}
    assert set(data["diagnosis"][0]) == {"root", "effects", "sentence", "severity", "step"}
    assert set(data["rules"][0]) == {"code", "name", "state", "reason"}
    assert set(data["overhead"]) == {
        *(
            "ratio",
            "seconds",
            "capture_seconds",
            "asked_ratio",
            "asked_seconds",
            "shed",
            "budget",
            "unwatched",
            "added_seconds",
            "start_seconds",
            "beside_seconds",
            "close_seconds",
            "launcher_seconds",
            "saved_seconds",
            "slowed_seconds",
            "wall_seconds",
        ),
    }


def test_failures_of_mothtrap_are_in_the_json_only_when_there_are_any() -> None:
    error = ToolError(step=1, part="writer", error="OSError: full", traceback="...")
    run = HandMadeRun(tool_errors=(error,), dropped=3, damage=("w0/stats: torn",))
    data = json.loads(jsonable.encode(summary_of(run)))
    assert data["tool_errors"] == [{"part": "writer", "error": "OSError: full"}]
    assert data["dropped"] == 3
    assert data["damage"] == ["w0/stats: torn"]


def test_a_capture_that_was_turned_off_is_the_reason_for_seeing_nothing() -> None:
    info = RunInfo(
        id="x",
        attempt=1,
        command=("python", "train.py"),
        cwd="/",
        created_s=0.0,
        pid=1,
        host="h",
        python="3.11",
        mothtrap="0",
        config={"capture": "off"},
    )
    run = HandMadeRun(steps=0, workers=(), info=info)
    assert summary_of(run).verdict == "Nothing was observed: capture is off."
