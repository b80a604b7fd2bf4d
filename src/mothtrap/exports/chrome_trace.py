"""One JSON file of the steps over time, for Perfetto (ui.perfetto.dev) and chrome://tracing.

Each worker is a process with a track of its steps, a track for each other mode, counters, and its
findings as instants at their onset. Times are microseconds since the first step began. A step
begins `step_s` before it was closed. If the wall clock is set back, times do not follow, so that
events on a worker's tracks never overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mothtrap.core import jsonable
from mothtrap.core.findings import Finding
from mothtrap.core.measured import DIGESTS
from mothtrap.core.records import StepRecord
from mothtrap.core.steps import Mode
from mothtrap.exports._choice import Choice, Written
from mothtrap.exports._steps import records
from mothtrap.reader.run import Run
from mothtrap.reader.series.windows import is_step

Event = dict[str, object]
_TRACKS = {Mode.TRAIN: 1, Mode.EVAL: 2, Mode.PREDICT: 3}
_COUNTERS = {"own_s": "mothtrap ms", "micro_batches": "micro-batches"}
_NANO = 1e9


def write(run: Run, target: Path, choice: Choice) -> Written:
    """Write the trace of a run; see `mothtrap.exports`."""
    lost: dict[str, None] = {}
    slices = {worker: list(_slices(run, worker, choice, lost)) for worker in run.workers}
    starts = [span.start_s for spans in slices.values() for span in spans]
    zero_s = min(starts, default=0.0)
    findings = [f for f in run.findings if choice.has_step(f.step)]
    steps = marked = 0
    with target.open("wb") as file:
        about = jsonable.encode({"run": run.id, "start_unix_s": zero_s})
        file.write(b'{"displayTimeUnit":"ms","otherData":' + about + b',"traceEvents":[\n')
        separator = b""
        for worker, spans in slices.items():
            instants = list(_instants(worker, spans, findings))
            events = (*_names(worker), *(e for s in spans for e in s.events()), *instants)
            for event in events:
                file.write(separator + jsonable.encode(_placed(event, worker, zero_s)))
                separator = b",\n"
            steps += len(spans)
            marked += len(instants)
        file.write(b"\n]}\n")
    return Written(counts={"steps": steps, "findings": marked}, left_out=tuple(lost))


class _Slice:
    """A record with its position in time, in seconds."""

    __slots__ = ("end_s", "record", "start_s")

    def __init__(self, record: StepRecord, start_s: float, end_s: float) -> None:
        self.record, self.start_s, self.end_s = record, start_s, end_s

    def events(self) -> Iterator[Event]:
        """Yield the slice itself, and the counters at its end; absolute seconds."""
        record = self.record
        key = record.key
        shown = (s for s in record.scalars if s.name not in DIGESTS)
        values = {f"{s.name}:{s.of}" if s.of else s.name: s.value for s in shown}
        yield {
            "name": f"step {key.step}" if key.mode is Mode.TRAIN else f"{key.mode} {key.mode_step}",
            "cat": key.mode.value,
            "ph": "X",
            "ts": self.start_s,
            "end": self.end_s,
            "tid": _TRACKS[key.mode],
            "args": {
                "step": key.step,
                "mode_step": key.mode_step,
                "optimizers": record.optimizers,
                "skipped": record.skipped,
                **values,
            },
        }
        for name, label in _COUNTERS.items():
            if name in values:
                value = values[name] * (1e3 if name == "own_s" else 1.0)
                # A counter is valid from its time on, so it is drawn over its step.
                yield {"name": label, "ph": "C", "ts": self.start_s, "args": {"value": value}}


def _slices(run: Run, worker: int, choice: Choice, lost: dict[str, None]) -> Iterator[_Slice]:
    ends_s: dict[Mode, float] = {}
    for recorded in records(run, worker, choice, lost):
        record = recorded.record
        mode = record.key.mode
        if mode is Mode.TRAIN and not is_step(record.key, record.optimizers, record.observations):
            continue
        if mode is not Mode.TRAIN and not record.scalars:
            continue
        took_s = next((s.value for s in record.scalars if s.name == "step_s"), 0.0)
        took_s = took_s if took_s > 0 else 0.0
        end_s = max(record.wall_s, ends_s.get(mode, float("-inf")) + took_s)
        ends_s[mode] = end_s
        yield _Slice(record, end_s - took_s, end_s)


def _instants(worker: int, spans: list[_Slice], findings: list[Finding]) -> Iterator[Event]:
    """Yield the findings of a worker, at the end of the step at which each began."""
    when = {s.record.key.step: s.end_s for s in spans if s.record.key.mode is Mode.TRAIN}
    for finding in findings:
        if worker in finding.workers and finding.step in when:
            yield {
                "name": f"{finding.code} {finding.name}",
                "cat": finding.severity.value,
                "ph": "i",
                "s": "p",
                "ts": when[finding.step],
                "tid": _TRACKS[Mode.TRAIN],
                "args": {
                    "message": finding.message,
                    "severity": finding.severity,
                    "layers": finding.layers,
                    "detected_step": finding.detected_step,
                    "location": finding.location,
                },
            }


def _names(worker: int) -> Iterator[Event]:
    yield {"name": "process_name", "ph": "M", "args": {"name": f"worker {worker}"}}
    yield {"name": "process_sort_index", "ph": "M", "args": {"sort_index": worker}}
    for mode, track in _TRACKS.items():
        yield {"name": "thread_name", "ph": "M", "tid": track, "args": {"name": mode.value}}


def _placed(event: Event, worker: int, zero_s: float) -> Event:
    """Return the event with its process, in microseconds since the start."""
    # Viewers treat process 0 as the idle task of a kernel, so ranks are increased by one.
    placed = {"pid": worker + 1, "tid": 0, **event}
    for name in ("ts", "end"):
        value = placed.get(name)
        if isinstance(value, float):
            placed[name] = round((value - zero_s) * _NANO)
    start, end = placed.pop("ts", None), placed.pop("end", None)
    # Computed from whole nanoseconds, so that adjacent slices do not overlap because of rounding.
    if isinstance(start, int):
        placed["ts"] = start / 1e3
        if isinstance(end, int):
            placed["dur"] = (end - start) / 1e3
    return placed
