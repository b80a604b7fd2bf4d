"""The trace of the steps conforms to the trace event format, as Perfetto reads it."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.exports.stored import info, train_step

from mothtrap.exports import Choice, Written, export_run
from mothtrap.reader.run import Run, open_run
from mothtrap.store import layout
from mothtrap.store.worker_log import WorkerLog

Event = dict[str, Any]
# The fields that the format requires for each phase, with their types.
REQUIRED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "X": {"name": str, "ts": (int, float), "dur": (int, float), "pid": int, "tid": int},
    "i": {"name": str, "ts": (int, float), "pid": int, "tid": int, "s": str},
    "C": {"name": str, "ts": (int, float), "pid": int, "args": dict},
    "M": {"name": str, "pid": int, "args": dict},
}


def offences(trace: dict[str, Any]) -> list[str]:
    """Return the violations in a trace: of the format, or of what viewers can display."""
    found = []
    for event in trace["traceEvents"]:
        wanted = REQUIRED.get(event.get("ph"))
        if wanted is None:
            found.append(f"unknown phase: {event}")
            continue
        found += [
            f"{name} of {event}"
            for name, kind in wanted.items()
            if not isinstance(event.get(name), kind) or isinstance(event.get(name), bool)
        ]
        if event["ph"] == "C" and not all(
            isinstance(value, int | float) for value in event["args"].values()
        ):
            found.append(f"a counter that is no number: {event}")
        if event["ph"] != "M" and event["ts"] < 0:
            found.append(f"before the start: {event}")
    tracks: dict[tuple[int, int], list[Event]] = {}
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and "dur" in event:
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for events in tracks.values():
        found += [
            f"overlap: {a} {b}"
            for a, b in pairwise(sorted(events, key=lambda e: e["ts"]))
            if round(1e3 * (a["ts"] + a["dur"])) > round(1e3 * b["ts"])
        ]
    return found


def exported(run: Run, path: Path, **choice: Any) -> tuple[dict[str, Any], Written]:
    written = export_run(run, "chrome-trace", path, Choice(**choice))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(path.read_text(), parse_constant=refuse), written


def test_trace_follows_the_format(run: Run, tmp_path: Path) -> None:
    trace, written = exported(run, tmp_path / "trace.json")
    assert offences(trace) == []
    assert written.counts == {"steps": 6 + 2 + 4, "findings": 1}


def test_steps_lie_where_they_were_in_time(run: Run, tmp_path: Path) -> None:
    trace, _ = exported(run, tmp_path / "trace.json")
    steps = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "train"]
    first = [(e["name"], e["ts"], e["dur"]) for e in steps if e["pid"] == 1]
    assert first == [(f"step {i}", i * 5e5, 5e5) for i in range(6)]
    assert [e["name"] for e in steps if e["pid"] == 2] == [f"step {i}" for i in range(4)]
    assert steps[3]["args"]["loss:main"] == "NaN"
    assert trace["otherData"] == {"run": "digits", "start_unix_s": 1_700_000_000.0}
    evals = [e for e in trace["traceEvents"] if e.get("cat") == "eval"]
    assert [(e["name"], e["args"]["step"]) for e in evals] == [("eval 0", 6), ("eval 1", 6)]


def test_micro_batches_and_own_time_are_counters(run: Run, tmp_path: Path) -> None:
    trace, _ = exported(run, tmp_path / "trace.json", end=1)
    counters = {
        (e["pid"], e["name"]): e["args"]["value"] for e in trace["traceEvents"] if e["ph"] == "C"
    }
    assert counters == {
        (pid, name): value
        for pid in (1, 2)
        for name, value in (("micro-batches", 2.0), ("mothtrap ms", 4.0))
    }


def test_a_finding_is_an_instant_at_its_onset_on_its_worker(run: Run, tmp_path: Path) -> None:
    trace, _ = exported(run, tmp_path / "trace.json")
    [instant] = [e for e in trace["traceEvents"] if e["ph"] == "i"]
    assert (instant["name"], instant["pid"], instant["ts"]) == ("NUM001 nonfinite_loss", 1, 2e6)
    assert instant["args"]["detected_step"] == 4


def test_a_clock_that_goes_back_makes_no_slices_overlap(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info("x", 1))
    log = WorkerLog(layout.claim_worker(attempt)[1])
    clock = [100.5, 101.0, 40.0, 40.5, 300.0]
    log.append([train_step(step, wall_s=wall_s) for step, wall_s in enumerate(clock)])
    log.close()
    trace, _ = exported(open_run(tmp_path / "x"), tmp_path / "trace.json")
    assert offences(trace) == []
    steps = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [e["ts"] for e in steps] == [0.0, 5e5, 1e6, 1.5e6, 199.5e6]


@pytest.mark.parametrize(
    "event",
    [
        {"ph": "X", "name": "a", "ts": 0, "pid": 1, "tid": 1},
        {"ph": "?", "name": "a"},
        {"ph": "C", "name": "a", "ts": 0, "pid": 1, "args": {"value": "NaN"}},
        {"ph": "X", "name": "a", "ts": 5, "dur": 9, "pid": 1, "tid": 1},
        {"ph": "i", "name": "a", "ts": -1, "pid": 1, "tid": 1, "s": "p"},
    ],
)
def test_format_check_sees_an_offence(event: Event) -> None:
    good = {"ph": "X", "name": "b", "ts": 10, "dur": 9, "pid": 1, "tid": 1}
    assert offences({"traceEvents": [good]}) == []
    assert len(offences({"traceEvents": [good, event]})) == 1
