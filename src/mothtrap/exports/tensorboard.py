"""A folder for TensorBoard, with one TensorBoard run (`w0`, `w1` ...) for each rank.

Scalars are tagged `name/of`, statistics `<kind>_<statistic>/<tensor>`. Losses are tagged with their
optimizers instead of their line, so that the tag survives an edit. The number of elements, and
counts of NaN and infinities that are 0, are left out. Tags of evaluations begin with `eval/`. Their
scalars have the train step at which the evaluation was made, so that they can be compared with the
training loss; TensorBoard keeps only the first point of each step. The x axis of their
statistics is the count of evaluated batches (`mode_step`, which continues from attempt to attempt),
because many batches share a train step. Findings are texts, `findings/<code>`, at their first step.
Whole tensors become histograms of their finite elements, `<kind>/<tensor>`, and the number of the
other elements becomes a scalar, `<kind>_nonfinite/<tensor>`. Captured exponents become histograms,
`<kind>_exponents/<tensor>`, and quantiles become scalars. NaN and infinities are kept.
TensorBoard's scalars are float32: a larger finite value is left out and reported, rather than
written as infinite.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import structs

from mothtrap.core.errors import DamagedDataError, MissingExtraError
from mothtrap.core.facts.captures import Unwatched
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.masking import without_secrets
from mothtrap.core.measured import DIGESTS
from mothtrap.core.packed_floats import unpacked
from mothtrap.core.steps import Mode, StepKey
from mothtrap.exports._buckets import buckets, power_buckets
from mothtrap.exports._choice import Choice, Written
from mothtrap.exports._steps import Recorded, Whole, records, statistics, wholes
from mothtrap.reader.run import Run
from mothtrap.reader.series.step_values import evaluation_losses
from mothtrap.statistics.distribution import EXPONENTS, QUANTILES, SHAPES

_DISTRIBUTION = re.compile(
    r"(?P<what>exponents|quantiles)\((?P<kind>\w+):(?P<name>.*)\)", re.DOTALL
)
"""Name of a distribution that was computed from a tensor."""
_PLACE = re.compile(r":\d+(?: |$)")
"""Pattern of the line in the name of a loss series."""
_VERSION = "brain.Event:2"
_LARGEST = float(np.finfo(np.float32).max)


def write(run: Run, target: Path, choice: Choice) -> Written:
    """Write event files; see `mothtrap.exports`.

    Raises:
        MissingExtraError: the package `tensorboard` is not installed.
    """
    with _Folder(target, choice.begin) as folder:
        folder.add(run, choice)
        folder.add_findings(run, choice)
        return folder.written()


def follow(run: Run, target: Path, choice: Choice, pause: Callable[[], object]) -> Written:
    """Write event files for a running job, adding new data after each pause.

    The newest step waits until the next one has begun, because evaluations may still be added to
    it. Steps that a later attempt repeats keep their first values.

    Args:
        run: the run, which is read again after each pause until it ends.
        target: folder to create.
        choice: see `write`.
        pause: function that waits.

    Raises:
        MissingExtraError: the package `tensorboard` is not installed.
    """
    begin = choice.begin
    with _Folder(target, choice.begin) as folder:
        while True:
            goes_on = run.state == "running"
            ends = [choice.end, run.steps - 1 if goes_on else None]
            end = min((each for each in ends if each is not None), default=None)
            if end is None or end > begin:
                folder.add(run, Choice(tensors=choice.tensors, begin=begin, end=end))
                begin = begin if end is None else end
            if not goes_on or begin == choice.end:
                folder.add_findings(run, choice)
                return folder.written()
            pause()
            run.refresh()


class _Folder:
    """Event files of all ranks of a run, to which parts of the run are added.

    Args:
        target: the folder to create.
        begin: first step.
    """

    def __init__(self, target: Path, begin: int) -> None:
        self._target, self._begin_at = target, begin
        self._files: dict[int, tuple[_EventFile, _Axis]] = {}
        self._counts = {"scalars": 0, "histograms": 0}
        self._left_out: dict[str, None] = {}
        self._open = ExitStack()

    def __enter__(self) -> _Folder:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, run: Run, choice: Choice) -> None:
        """Write the chosen part of a run; steps must come in order."""
        for worker in run.workers:
            if worker not in self._files:
                self._files[worker] = self._begin(run, worker), _Axis()
            events, axis = self._files[worker]
            views = {part.attempt: part.view for part in run.parts(worker)}
            tags = {n: _Tags(view.loss_series.values()) for n, view in views.items()}
            evaluations: dict[int, list[Evaluation]] = {}
            for one in run.observations(Evaluation):
                evaluations.setdefault(one.step, []).append(one)
            for recorded in records(run, worker, choice, self._left_out):
                whole = _with_whole_evaluations(recorded, evaluations)
                self._add_record(events, whole, choice, axis, tags[recorded.attempt])
            for kept in wholes(run, worker, choice, self._left_out):
                try:
                    self._counts["histograms"] += _add_whole(events, kept, axis)
                except DamagedDataError as err:
                    self._left_out[str(err)] = None
                except _NoHistogram as reason:
                    text = f"{kept.tensor.identity} has no histogram: {reason}"
                    self._left_out[text] = None
            events.settle()

    def written(self) -> Written:
        """Describe the amount of written data, and the parts left out."""
        too_large = [
            f"{count} values of {tag} on rank {worker} exceed float32, and are omitted"
            for worker, (events, _) in self._files.items()
            for tag, count in events.too_large.items()
        ]
        return Written(counts=dict(self._counts), left_out=(*self._left_out, *too_large))

    def _begin(self, run: Run, worker: int) -> _EventFile:
        folder = self._target / f"w{worker}"
        folder.mkdir(parents=True)
        started_s = run.info.created_s if run.info else 0.0
        path = folder / f"events.out.tfevents.{started_s:.0f}.mothtrap"
        return self._open.enter_context(_EventFile(path))

    def _add_record(
        self, events: _EventFile, recorded: Recorded, choice: Choice, axis: _Axis, tags: _Tags
    ) -> None:
        record = recorded.record
        prefix, step = _prefix(record.key.mode), record.key.step
        for fact in record.observations:
            if isinstance(fact, Unwatched):
                self._add_unwatched(events, fact, choice, record.wall_s, tags)
        for scalar in record.scalars:
            if scalar.name in DIGESTS:
                continue
            tag = tags.of(prefix, scalar.name, scalar.of)
            if not prefix or axis.is_first(tag, step):
                events.add_scalar(tag, scalar.value)
        if prefix:
            self._counts["scalars"] += events.flush(step, record.wall_s)
        for tensor, values in statistics(recorded, choice):
            for name, value in values.items():
                if name != "count" and (value or name not in ("nan", "inf")):
                    events.add_scalar(f"{prefix}{tensor.kind}_{name}/{tensor.name}", value)
        place = axis.place(recorded.attempt, record.key)
        self._counts["scalars"] += events.flush(place, record.wall_s)

    def _add_unwatched(
        self, events: _EventFile, fact: Unwatched, choice: Choice, ended_s: float, tags: _Tags
    ) -> None:
        """Write losses and learning rates of steps before a record, spread evenly over time."""
        kept = {"loss": (fact.loss_of, fact.losses), "lr": (fact.rate_of, fact.rates)}
        values = {
            tags.of("", name, owner): unpacked(text, fact.count)
            for name, (owner, text) in kept.items()
            if text
        }
        for place, step in enumerate(range(fact.step, fact.last_step + 1)):
            if step < self._begin_at or (choice.end is not None and step >= choice.end):
                continue
            for tag, value_N in values.items():
                if not np.isnan(value_N[place]):
                    events.add_scalar(tag, float(value_N[place]))
            wall_s = ended_s - fact.seconds * (1 - place / fact.count)
            self._counts["scalars"] += events.flush(step, wall_s)

    def add_findings(self, run: Run, choice: Choice) -> None:
        """Write the findings of a run as texts, to its first rank."""
        if not self._files:
            return
        events, _ = self._files[min(self._files)]
        for finding in run.findings:
            if finding.step >= choice.begin and (choice.end is None or finding.step < choice.end):
                lines = [f"**{finding.severity.value}** {finding.message}"]
                lines += [finding.location or "", *(f"- fix: {fix}" for fix in finding.fixes)]
                text = "\n\n".join(without_secrets(line) for line in lines if line)
                events.add_text(f"findings/{finding.code}", text)
                events.flush(finding.step, run.info.created_s if run.info else 0.0)
        events.settle()


def _with_whole_evaluations(
    recorded: Recorded, evaluations: Mapping[int, Sequence[Evaluation]]
) -> Recorded:
    """Replace the losses of batches by the loss of their evaluation, written once per step."""
    record = recorded.record
    if record.key.mode is not Mode.EVAL or not any(s.name == "loss" for s in record.scalars):
        return recorded
    here = evaluations.get(record.key.step, ())
    scalars = []
    for scalar in record.scalars:
        known = evaluation_losses(here, scalar.of) if scalar.name == "loss" else {}
        value = known.get(record.key.step, scalar.value)
        scalars.append(structs.replace(scalar, value=value))
    return replace(recorded, record=replace(record, scalars=tuple(scalars)))


class _NoHistogram(Exception):
    """Stored values cannot be shown as a histogram; the text gives the reason."""


def _prefix(mode: Mode) -> str:
    return "" if mode is Mode.TRAIN else f"{mode.value}/"


class _Tags:
    """Tags of scalars in one attempt.

    Args:
        series: the loss series of its training.
    """

    def __init__(self, series: Iterable[LossSeries]) -> None:
        self._losses: dict[tuple[str, str], str] = {}
        for fact in series:
            self._name("", fact.series, " ".join(fact.optimizers))

    def of(self, prefix: str, name: str, owner: str) -> str:
        """Return the tag of a scalar; `prefix` is the prefix of its mode."""
        if name == "loss":
            if prefix:
                self._name(prefix, owner, "")
            if tag := self._losses.get((prefix, owner)):
                return tag
        return prefix + (f"{name}/{owner}" if owner else name)

    def _name(self, prefix: str, series: str, rest: str) -> None:
        """Tag a series without its line, unless another series has the same optimizers."""
        tag = f"{prefix}loss/{rest}".rstrip("/")
        if _PLACE.search(series) and tag not in self._losses.values():
            self._losses.setdefault((prefix, series), tag)


class _Axis:
    """Positions of a rank's moments on the axis; new moments must be in order."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, Mode], int] = {}
        self._end: dict[Mode, int] = {}
        self._latest: dict[str, int] = {}

    def is_first(self, tag: str, step: int) -> bool:
        """Return whether a tag has no value yet at this or a later step."""
        if step <= self._latest.get(tag, -1):
            return False
        self._latest[tag] = step
        return True

    def place(self, attempt: int, key: StepKey) -> int:
        """Return the step; evaluations continue the count of earlier attempts."""
        if key.mode is Mode.TRAIN:
            return key.step
        end = self._end.get(key.mode, 0)
        before = self._before.setdefault((attempt, key.mode), end if key.mode_step < end else 0)
        place = before + key.mode_step
        self._end[key.mode] = max(self._end.get(key.mode, 0), place + 1)
        return place


def _add_whole(events: _EventFile, whole: Whole, axis: _Axis) -> int:
    """Add a stored tensor; return the number of resulting histograms."""
    prefix, tensor = _prefix(whole.row.key.mode), whole.tensor
    values = whole.values()
    spread = _DISTRIBUTION.fullmatch(tensor.name) if tensor.kind == "metric" else None
    added = 0
    if spread is not None and values.shape == SHAPES[spread["what"]][0]:
        tag = f"{prefix}{spread['kind']}_{{}}/{spread['name']}"
        if spread["what"] == EXPONENTS:
            events.add_histogram(tag.format("exponents"), power_buckets(values.astype(np.int64)))
            added = 1
        else:
            for share, value in zip(QUANTILES, values.tolist(), strict=True):
                events.add_scalar(tag.format(f"quantile_{share:g}"), value)
    elif values.dtype.kind == "c":
        raise _NoHistogram("its values are complex numbers")
    else:
        flat = values.reshape(-1).astype(np.float64)
        finite = flat[np.isfinite(flat)]
        lost = flat.size - finite.size
        events.add_scalar(f"{prefix}{tensor.kind}_nonfinite/{tensor.name}", lost)
        if finite.size:
            events.add_histogram(f"{prefix}{tensor.kind}/{tensor.name}", buckets(finite))
            added = 1
    events.flush(axis.place(whole.attempt, whole.row.key), whole.wall_s)
    return added


class _EventFile:
    """Collects the values of a step, and writes them as one event.

    Attributes:
        too_large: by tag, number of finite values that were left out because they exceed float32.
    """

    def __init__(self, path: Path) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError as err:
            raise MissingExtraError("export to tensorboard", "tensorboard", "tensorboard") from err
        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self.too_large: dict[str, int] = {}
        self._values = self._summary()
        self._file = path.open("wb")
        self._records = RecordWriter(self._file)
        self._write(self._event(file_version=_VERSION))

    def __enter__(self) -> _EventFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add_scalar(self, tag: str, value: float) -> None:
        """Add a number to the event; a number that would become infinite is only counted."""
        if math.isfinite(value) and abs(value) > _LARGEST:
            self.too_large[tag] = self.too_large.get(tag, 0) + 1
        else:
            self._values.value.add(tag=tag, simple_value=value)

    def add_histogram(self, tag: str, buckets_B3: npt.NDArray[np.float64]) -> None:
        """Add the rows of `buckets` to the event."""
        row = self._values.value.add(tag=tag)
        row.metadata.plugin_data.plugin_name = "histograms"
        row.tensor.dtype = 2  # DT_DOUBLE
        for size in buckets_B3.shape:
            row.tensor.tensor_shape.dim.add(size=size)
        row.tensor.tensor_content = np.ascontiguousarray(buckets_B3, "<f8").tobytes()

    def add_text(self, tag: str, text: str) -> None:
        """Add a text in Markdown."""
        value = self._values.value.add(tag=tag)
        value.metadata.plugin_data.plugin_name = "text"
        value.tensor.dtype = 7  # DT_STRING
        value.tensor.string_val.append(text.encode())

    def flush(self, step: int, wall_s: float) -> int:
        """Write the added values as the event of a step; return their number."""
        count = len(self._values.value)
        if count:
            self._write(self._event(wall_time=wall_s, step=step, summary=self._values))
            self._values = self._summary()
        return count

    def settle(self) -> None:
        """Flush written data to the disk for readers of the growing file."""
        self._file.flush()

    def _write(self, event: Any) -> None:
        self._records.write(event.SerializeToString())
