"""A run, running or finished: its findings and captured data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from mothtrap.core import registry
from mothtrap.core.errors import RunNotFoundError, UnknownNameError
from mothtrap.core.facts.evaluations import Evaluation
from mothtrap.core.facts.record import ItemLogged
from mothtrap.core.labels import LabelKind, Labels
from mothtrap.core.measured import DIGEST, DIGESTS
from mothtrap.core.record_items import Predictions
from mothtrap.core.records import StepRecord
from mothtrap.core.steps import Mode, step_number
from mothtrap.core.window import Ints, Matrix
from mothtrap.reader import notebook, sql, tables
from mothtrap.reader.files.commits import ENDLESS, ModeName, mode_code
from mothtrap.reader.files.parts import Part, Span
from mothtrap.reader.files.run_files import RunFiles
from mothtrap.reader.files.worker_view import ScalarName
from mothtrap.reader.plots import Plots
from mothtrap.reader.record.items import Item, read_bytes
from mothtrap.reader.record.predicted import predictions_of
from mothtrap.reader.run_facts import RunFacts
from mothtrap.reader.run_record import Record, last_values, record_of
from mothtrap.reader.samples.sample_index import Samples
from mothtrap.reader.series.completion import POLL_S, follow_steps, wait_for
from mothtrap.reader.series.merged import MERGED, Merged, merged_matrices, merged_scalars
from mothtrap.reader.series.run_series import RunSeries
from mothtrap.reader.series.steps import StepStatus, Timeline
from mothtrap.reader.series.timed import timed_rows
from mothtrap.reader.series.worker_series import scalar_series, statistic_matrices
from mothtrap.reader.tensors import choosing
from mothtrap.reader.tensors.captured_tensors import Tensor
from mothtrap.statistics.summary import columns_for
from mothtrap.store import find_runs
from mothtrap.store.labels import put_label, read_labels
from mothtrap.store.worker_reading import ReadState

if TYPE_CHECKING:
    import pyarrow as pa
    import xarray

    from mothtrap.store.time_log import TimedRows

NOTEBOOK = "mothtrap.notebook"
"""Displays of a run in higher packages, loaded when one is requested."""


def open_run(
    argument: str | Path | None = None, runs_dir: str | Path = "runs", *, timeout_s: float = 0.0
) -> Run:
    """Open a run for reading; the job may still be writing it.

    Args:
        argument: a path, a URL, a name under `runs_dir`, or None for the latest run.
        runs_dir: the folder or the URL of runs.
        timeout_s: maximum time in seconds to wait for the run of a job that is starting; a run
            exists once its first step has ended.

    Raises:
        RunNotFoundError: there is no such run; the message suggests one.
    """
    ends_s = time.monotonic() + timeout_s
    while True:
        try:
            files = RunFiles(find_runs.find_run(argument, runs_dir))
        except RunNotFoundError:
            if time.monotonic() >= ends_s:
                raise
            time.sleep(POLL_S)
        else:
            return Run(files, Span(files.attempts))


class Run(RunFacts):
    """Results and captured data of a run; returned by `open_run`.

    Opening a run reads its events and findings. Numbers are read on first use and kept in memory
    (statistics take about 30 bytes per tensor and step by default). Answers describe the run at
    the last `refresh`, which reads the data that a running job added.

    In every method, `worker` is a rank; None means the lowest rank, and "merged" joins all workers.
    """

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._files.path

    @property
    def record(self) -> Record:
        """Parameters, data, code, packages, user, times, and logged items of the run."""
        attempts = sorted(self._span.attempts.items())
        logged = (
            (number, rank, seen)
            for number, attempt in attempts
            for rank, view in sorted(attempt.workers.items())
            for seen in view.observations
            if isinstance(seen, ItemLogged)
        )
        return record_of(self, logged)

    @property
    def metrics(self) -> dict[str, float]:
        """Last value of each loss and of each logged number, by name."""
        return last_values(self.scalars(), self.observations(Evaluation))

    def view(self, height: int = 600) -> object:
        """Return the report of the run, which a notebook shows in a frame.

        Args:
            height: height of the frame in pixels.
        """
        return registry.load(NOTEBOOK, "view").show(self, height)

    def live(self, every_s: float = 2.0) -> object:
        """Return a notebook widget that shows verdict, findings, and loss of a running job.

        Args:
            every_s: seconds between two updates, until the run ends.

        Raises:
            MissingExtraError: anywidget is not installed.
        """
        return registry.load(NOTEBOOK, "live").follow(self, every_s)

    @property
    def plot(self) -> Plots:
        """Charts of the run, as Vega-Lite specifications."""
        return Plots(self)

    @property
    def labels(self) -> Labels:
        """Tags, notes, and group of the run, and whether it is archived."""
        return read_labels(self.path)

    def label(self, kind: LabelKind, text: str = "") -> None:
        """Add or remove a label of the run.

        Args:
            kind: `tag`, `untag`, `note`, `group`, `archive` or `restore`.
            text: the tag, the note, or the group.

        Raises:
            ConfigError: the text is missing or too long.
            OSError: the run cannot be written.
        """
        put_label(self.path, kind, text)

    def read_item(self, item: Item, *, library: bool = False) -> bytes:
        """Return the stored file of a logged item as bytes.

        Args:
            item: one of `record.items`.
            library: return the JavaScript library that draws the figure instead of the figure.

        Raises:
            UnknownNameError: no file of the item was stored.
            DamagedDataError: the file is damaged or missing.
        """
        return read_bytes(self.path, item, library=library)

    def predictions(
        self, labels: str, scores: str, mode: ModeName = Mode.EVAL, worker: int | None = None
    ) -> Predictions:
        """Return confusion matrix, ROC and precision-recall curves of captured labels and outputs.

        Args:
            labels: name of the tensor with the true classes, e.g. `label:...`.
            scores: name of the tensor with the scores, e.g. `output:...`; for shapes see
                `mothtrap.log_predictions`.
            mode: mode of the steps.
            worker: rank; None means the lowest rank that has both tensors.

        Raises:
            StepUnavailableError: the values of both tensors were never captured at the same step.
            UnknownNameError: there is no such tensor; the message suggests one.
            ValueError: labels and scores do not fit together; the message gives the reason.
        """
        return predictions_of(self.tensor(labels), self.tensor(scores), mode, worker)

    def refresh(self) -> None:
        """Read the data that was added since the last read."""
        self._files.refresh()

    @contextmanager
    def frozen(self) -> Iterator[Run]:
        """Keep `refresh` from changing the run and its views (`range`) during a `with` block.

        Blocks can be nested.
        """
        self._files.holds += 1
        try:
            yield self
        finally:
            self._files.holds -= 1

    def range(self, begin: int = 0, end: int = ENDLESS) -> Run:
        """Return a view of the steps from `begin` up to but excluding `end`, without reading again.

        Raises:
            ValueError: `end` is before `begin`.
        """
        begin, end = step_number(begin), step_number(end)
        if end < begin:
            raise ValueError(
                f"the end of a view must not be before its begin: got begin {begin} and end {end}"
            )
        return Run(self._files, self._span.narrowed(begin, end))

    @property
    def timeline(self) -> Timeline:
        """Captured steps of all workers, with their numbers in each mode and in the job."""
        return Timeline(self._span)

    @property
    def samples(self) -> Samples:
        """Samples that each step trained on."""
        return Samples(self._span)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Modes with at least one captured step."""
        return self.timeline.modes()

    def steps_of(self, mode: ModeName | None = None) -> Ints:
        """Return the job's steps at which anything was captured, int64, shape (S,), ascending."""
        return self.timeline.steps(mode)

    def status(self, step: int, mode: ModeName = Mode.TRAIN) -> StepStatus:
        """Return whether a step is available, and from which workers."""
        return self.timeline.status(step, mode)

    def wait_for(
        self, step: int, timeout_s: float | None = None, mode: ModeName = Mode.TRAIN
    ) -> StepStatus:
        """Wait until a step is available.

        Args:
            step: step of the job.
            timeout_s: seconds to wait at most; None means as long as the job runs.
            mode: mode of the step.

        Raises:
            StepUnavailableError: the step will never be available; the message gives the reason.
            StepNotYetError: the time is up, or the run is `frozen`.
        """
        return wait_for(
            self._files, self._span, step, mode=mode, timeout_s=timeout_s, poll_s=POLL_S
        )

    def follow(self, mode: ModeName | None = None, poll_s: float = POLL_S) -> Iterator[StepStatus]:
        """Yield the captured steps, then new steps as they are captured, until the job ends.

        Each step is yielded once, in order, as soon as every worker has captured it, has passed it,
        or has ended. Data that a worker adds to it later is not reported. If a job was restarted,
        its repeated steps are yielded again, with a different `attempt`. After the last step,
        `state` is `finished` or `crashed`.

        Args:
            mode: mode of the steps; None means all modes.
            poll_s: pause between two reads, in seconds.
        """
        return follow_steps(self._files, self._span, mode=mode, poll_s=poll_s)

    def tensors(
        self,
        pattern: str = "*",
        kind: str | None = None,
        collection: str | None = None,
        step: int | None = None,
        mode: ModeName | None = None,
        worker: int | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the tensors that match all given arguments.

        Args:
            pattern: a glob over names and module paths, or, as in a collection,
                `gradients:blocks.0.*`, or `re:` and a regular expression for `kind:name`.
            kind: kind of the tensors, e.g. `gradient` or `gradients`.
            collection: a built-in collection (`gradients`) or one of the run's `collections`.
            step: step of the job at which the tensor was captured.
            mode: mode in which the tensor was captured.
            worker: rank of a worker that captured the tensor; None means any.

        Raises:
            UnknownNameError: a kind, collection, mode or worker does not exist; the message
                suggests one.
        """
        tests = [choosing.matching(pattern)] if pattern != "*" else []
        if kind is not None:
            wanted = choosing.the_kind(kind)
            tests.append(lambda info: info.kind == wanted)
        if collection is not None:
            tests.append(choosing.in_collection(collection, self._described()))
        step = step if step is None else step_number(step)
        ranks = self.workers if worker is None else (self._worker(worker),)
        known = choosing.all_tensors(self._span)
        if step is not None or mode is not None:
            found = [choosing.captured_at(self._span, rank, step, mode) for rank in ranks]
            known = {name: known[name] for name in known if any(name in each for each in found)}
        return tuple(
            tensor
            for tensor in known.values()
            if set(ranks) & set(tensor.workers) and all(test(tensor.info) for test in tests)
        )

    def tensor(self, name: str) -> Tensor:
        """Return one tensor, by its name or by `kind:name`.

        If tensors of several kinds have the name, a weight takes precedence over its gradient.

        Raises:
            UnknownNameError: there is no such tensor; the message suggests one.
        """
        return choosing.one_tensor(self._span, name)

    def scalars(
        self,
        pattern: str = "*",
        mode: ModeName | None = None,
        *,
        worker: Merged | int | None = None,
    ) -> tuple[RunSeries, ...]:
        """Return the scalars of one worker or of all workers, over the steps of the run.

        Args:
            pattern: glob over `name` or `name:of`, e.g. `loss`, `lr:*`. Digests of tensors are
                omitted unless the pattern begins with `digest`.
            mode: mode of the steps; None means all modes.
            worker: rank, or "merged".
        """
        if mode is not None:
            mode_code(mode)

        def chosen(scalar: ScalarName) -> bool:
            name, of, its_mode = scalar
            names = (name, f"{name}:{of}")
            matches = any(fnmatchcase(text, pattern) for text in names)
            if name in DIGESTS and not pattern.startswith(DIGEST):
                return False
            return matches and (mode is None or its_mode == mode)

        if worker == MERGED:
            return merged_scalars(self._span, chosen)
        return scalar_series(self.parts(worker), chosen)

    def stats(
        self,
        kind: str,
        layers: str = "*",
        statistics: str | Sequence[str] = ("l2",),
        *,
        mode: ModeName = Mode.TRAIN,
        worker: Merged | int | None = None,
    ) -> dict[str, Matrix]:
        """Return statistics of tensors over the steps of a mode.

        Args:
            kind: kind of the tensors, e.g. `gradient` or `gradients`.
            layers: glob over tensor names and module paths.
            statistics: id of a statistic, or several; see `statistics.summary.STATISTICS`.
            mode: mode of the steps.
            worker: rank; "merged" means statistics of whole tensors, over all workers.

        Returns:
            A matrix of shape (steps, tensors) for each statistic; without rows if nothing was
            captured. Each evaluation in a step of the job has its own row.

        Raises:
            UnknownNameError: there is no such kind or statistic; the message suggests one.
        """
        kind = choosing.the_kind(kind)
        statistics = (statistics,) if isinstance(statistics, str) else statistics
        columns_for(statistics)
        chosen = choosing.by_glob(layers)
        if worker == MERGED:
            return merged_matrices(self._span, kind, chosen, tuple(statistics), mode)
        return statistic_matrices(self.parts(worker), kind, chosen, tuple(statistics), mode)

    def dataset(
        self,
        kind: str,
        layers: str = "*",
        statistics: str | Sequence[str] = ("l2",),
        *,
        mode: ModeName = Mode.TRAIN,
        worker: Merged | int | None = None,
    ) -> xarray.Dataset:
        """Return the result of `stats` as an xarray dataset with a (step, layer) variable for each.

        Raises:
            MissingExtraError: xarray is not installed.
            UnknownNameError: see `stats`.
        """
        matrices = self.stats(kind, layers, statistics, mode=mode, worker=worker)
        return tables.dataset(matrices, kind)

    def table(self, name: str) -> pa.Table:
        """Return one of the run's tables, of all workers, as an Arrow table.

        Convert it with `.to_pandas()`, `polars.from_arrow(table)`, or `.column(x).to_numpy()`.

        Args:
            name: one of `reader.tables.TABLES`.

        Raises:
            UnknownNameError: there is no such table; the message suggests one.
        """
        return tables.table(self, self._span, name)

    def sql(self, query: str) -> pa.Table:
        """Run a SQL query over the tables of `table`, and return its result as an Arrow table.

        Raises:
            MissingExtraError: duckdb is not installed.
            QueryError: the query failed; the message gives the reason.
        """
        return sql.answer(query, self._span, self.table)

    def timed(self, name: str, worker: int | None = None) -> TimedRows:
        """Return the rows of a table that is indexed by time instead of steps, of all attempts.

        Args:
            name: name of the table, e.g. `machine`.
            worker: rank; None means the lowest.

        Raises:
            UnknownNameError: the worker has no such table; the message suggests one.
        """
        return timed_rows((part.view.folder for part in self.parts(worker)), name)

    def records(self, worker: int | None = None) -> Iterator[StepRecord]:
        """Yield the records as stored, attempt after attempt.

        Args:
            worker: rank; None means all workers, one at a time.
        """
        for rank in self.workers if worker is None else (worker,):
            for view in self._span.views(rank):
                for record in ReadState(view.folder).poll():
                    if record.key.step in self._span.bounds:
                        yield record

    def histories(self) -> Iterator[tuple[int, int, int, Iterator[StepRecord]]]:
        """Yield the records of each worker in each attempt, as the rules read them.

        Yields:
            Number of the attempt, rank of the worker, number of records, and the records.
        """
        for number, attempt in sorted(self._span.attempts.items()):
            for rank, view in sorted(attempt.workers.items()):
                yield number, rank, len(view.commits), ReadState(view.folder).poll()

    def parts(self, worker: int | None = None) -> list[Part]:
        """Return the attempts of a worker, each with the steps that count.

        Args:
            worker: rank; None means the lowest.
        """
        rank = min(self.workers, default=0) if worker is None else self._worker(worker)
        return self._span.parts(rank)

    def _repr_html_(self) -> str:
        return notebook.run_html(self)

    def _worker(self, worker: int) -> int:
        if worker not in self.workers:
            known = ", ".join(map(str, self.workers)) or "none"
            raise UnknownNameError(f"there is no worker {worker}; this run has: {known}")
        return worker
