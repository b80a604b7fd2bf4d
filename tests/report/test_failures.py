"""Report of an exception, without its traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.report.faulty_run import HandMadeRun

from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.facts.snapshots import SnapshotKept
from mothtrap.core.runs import RunEnd
from mothtrap.report import text
from mothtrap.report.failures import failures
from mothtrap.report.summary import RunSummary, summarize
from mothtrap.report.verdict import verdict


def failed(**changes: Any) -> ScriptFailed:
    values: dict[str, Any] = {
        "step": 40_000,
        "kind": "shape",
        "error": "RuntimeError: mat1 and mat2 shapes cannot be multiplied (17x64 and 128x10)",
        "sentence": "fc1 (nn.Linear(128, 10), model.py:14) got x of shape (17, 64)",
        "module": "fc1",
        "inputs": ("x: float32 (17, 64)",),
        "batch": "loader 1 (train.py:9) gave 17 rows, fewer than its batch size 32",
        "location": "model.py:22",
        "fixes": ("change the layer to nn.Linear(64, 10)", "or the other"),
    }
    return ScriptFailed(**values | changes)


def summary_of(*observed: ScriptFailed, **facts: Any) -> RunSummary:
    return summarize(HandMadeRun(observed=observed, **facts), {})  # type: ignore[arg-type]


def test_the_block_has_step_place_batch_and_fixes() -> None:
    shown = verdict(summary_of(failed()))
    assert "  x step 40000: RuntimeError: mat1 and mat2" in shown
    assert "    fc1 (nn.Linear(128, 10), model.py:14) got x of shape (17, 64)" in shown
    assert "    --> model.py:22" in shown
    assert "    = batch: loader 1 (train.py:9) gave 17 rows" in shown
    assert "    = fix: or the other" in shown
    assert "= given" not in shown  # the sentence tells of a single input


def test_several_inputs_are_listed() -> None:
    two = failed(inputs=("input: float32 (4, 3)", "target: int64 (3,)"))
    assert "    = given: input: float32 (4, 3); target: int64 (3,)" in text.full(summary_of(two))


def test_workers_that_fail_alike_are_told_once() -> None:
    run: Any = HandMadeRun(observed=(failed(), failed(), failed(step=2)))
    assert [failure.step for failure in failures(run)] == [40_000, 2]


def test_many_failures_are_counted() -> None:
    shown = verdict(summary_of(*(failed(step=step) for step in range(5))))
    assert "  2 more failed (mothtrap show --format json --all)" in shown
    assert "step 3:" not in shown


@pytest.mark.parametrize("sign", ["\x1b[2J", "\n", "\u202e"])
def test_what_an_exception_says_cannot_steer_a_terminal(sign: str) -> None:
    failure = failed(error=f"E: {sign}", sentence=sign, batch=sign, location=sign, fixes=(sign,))
    assert all(line.isprintable() for line in verdict(summary_of(failure)).split("\n"))


def test_a_script_that_fails_before_its_first_step_is_no_riddle() -> None:
    end = RunEnd(exit_code=1, ended_s=0.0, lost=())
    summary = summary_of(failed(step=0), steps=0, end=end)
    assert summary.verdict.endswith("before its first optimizer step.")
    assert "no process of the job made an optimizer step" not in summary.verdict


def test_other_runs_have_no_block() -> None:
    assert summary_of().failures == ()
    assert "= batch" not in verdict(summary_of())


def test_a_run_that_its_id_does_not_find_goes_by_its_path(tmp_path: Path) -> None:
    kept = SnapshotKept(step=40_000, reason="exception", folder=".", state_step=40_000)
    run: Any = HandMadeRun(observed=(failed(), kept), path=tmp_path)
    found = summarize(run, {}, called="own/x")
    shown = verdict(found)
    assert "= replay: mothtrap replay own/x --step 40000 --pdb" in shown
    assert "can be replayed: step 40000: mothtrap replay own/x --step 40000" in text.full(found)
    assert found.called == "own/x"
    assert summarize(run, {}, called=run.id).called == ""
