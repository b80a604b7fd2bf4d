"""A run, live or done: what it found and what it captured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from mothtrap.core import registry
from mothtrap.core.errors import RunNotFoundError, UnknownNameError
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
"""Displays of a run, which lie above this package and are loaded when one is asked for."""


def open_run(
    argument: str | Path | None = None, runs_dir: str | Path = "runs", *, timeout_s: float = 0.0
) -> Run:
    """Open a run for reading; the job may still be writing it.

    Args:
        argument: a path, a URL, a name under `runs_dir`, or None for the latest run.
        runs_dir: the folder or the URL of runs.
        timeout_s: seconds to wait at most for a job that is starting: its run is there once
            the first step is over.

    Raises:
        RunNotFoundError: there is no such run; names the nearest.
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
    """Results and captures of a run; `refresh` reads the additions of a running job.

    Opening reads the events and findings; the numbers are read when first asked for, once,
    and kept in memory (by default statistics take about 30 bytes for each tensor and step).
    Between two calls of `refresh` all answers are of the same moment. Made by `open_run`.

    Wherever a method takes a `worker`, it is a rank; None means the lowest, "merged" all
    of them together (see `reader.merged`).
    """

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._files.path

    @property
    def record(self) -> Record:
        """Return what was run: parameters, data, code, packages, who, when, what it has logged."""
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
        """Return the last value of each loss and of each number that the script logs, by name."""
        return last_values(self.scalars())

    def view(self, height: int = 600) -> object:
        """Return the report of the run, which a notebook shows in a frame.

        Args:
            height: of the frame, in pixels.
        """
        return registry.load(NOTEBOOK, "view").show(self, height)

    def live(self, every_s: float = 2.0) -> object:
        """Return a widget that follows the run: verdict, findings, loss.

        Args:
            every_s: seconds from one look at the run to the next, until it ends.

        Raises:
            MissingExtraError: anywidget is not installed.
        """
        return registry.load(NOTEBOOK, "live").follow(self, every_s)

    @property
    def plot(self) -> Plots:
        """Return what draws charts of the run, as Vega-Lite specifications."""
        return Plots(self)

    @property
    def labels(self) -> Labels:
        """Return what people say of the run: tags, notes, group, archived or not."""
        return read_labels(self.path)

    def label(self, kind: LabelKind, text: str = "") -> None:
        """Label the run.

        Args:
            kind: `tag`, `untag`, `note`, `group`, `archive` or `restore`.
            text: the tag, the note, or the group.

        Raises:
            ConfigError: the text is missing or too long.
            OSError: the run cannot be written.
        """
        put_label(self.path, kind, text)

    def read_item(self, item: Item, *, library: bool = False) -> bytes:
        """Return what was kept of something that the script logged; see `Record.items`.

        Args:
            item: of `record.items`.
            library: the program that draws the figure in its place.

        Raises:
            UnknownNameError: nothing was kept.
            DamagedDataError: the file is damaged or missing.
        """
        return read_bytes(self.path, item, library=library)

    def predictions(
        self, labels: str, scores: str, mode: ModeName = Mode.EVAL, worker: int | None = None
    ) -> Predictions:
        """Return confusion matrix and curves of captured labels and outputs.

        Args:
            labels: name of the tensor that holds the true classes, e.g. `label:...`.
            scores: that of the scores, e.g. `output:...`; see `mothtrap.log_predictions`.
            mode: of the steps.
            worker: rank; None means the lowest that has them.

        Raises:
            StepUnavailableError: they were kept whole at no moment in common.
            ValueError: their values do not fit; says why.
        """
        return predictions_of(self.tensor(labels), self.tensor(scores), mode, worker)

    def refresh(self) -> None:
        """Read what was added since the last time."""
        self._files.refresh()

    @contextmanager
    def frozen(self) -> Iterator[Run]:
        """Hold the run as it is: until the end of the block nothing refreshes it.

        Holds every view of the run (`range`) and can be nested.
        """
        self._files.holds += 1
        try:
            yield self
        finally:
            self._files.holds -= 1

    def range(self, begin: int = 0, end: int = ENDLESS) -> Run:
        """Return a view of the steps from `begin` on, before `end`; nothing is read anew.

        Raises:
            ValueError: `end` lies before `begin`.
        """
        begin, end = step_number(begin), step_number(end)
        if end < begin:
            raise ValueError(
                f"the end of a view must not be before its begin: got begin {begin} and end {end}"
            )
        return Run(self._files, self._span.narrowed(begin, end))

    @property
    def timeline(self) -> Timeline:
        """The steps: between modes and the job's own count, over all workers."""
        return Timeline(self._span)

    @property
    def samples(self) -> Samples:
        """Return the samples that each step trained on."""
        return Samples(self._span)

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Modes of which any step was captured."""
        return self.timeline.modes()

    def steps_of(self, mode: ModeName | None = None) -> Ints:
        """Return the job's steps at which anything was captured, ascending."""
        return self.timeline.steps(mode)

    def status(self, step: int, mode: ModeName = Mode.TRAIN) -> StepStatus:
        """Say whether a step is available, unavailable or not there yet, and of whom."""
        return self.timeline.status(step, mode)

    def wait_for(
        self, step: int, timeout_s: float | None = None, mode: ModeName = Mode.TRAIN
    ) -> StepStatus:
        """Wait until a step is available.

        Args:
            step: of the job.
            timeout_s: seconds to wait at most; None means as long as the job runs.
            mode: of the step.

        Raises:
            StepUnavailableError: it will never be; says why.
            StepNotYetError: the time is up, or the run is frozen.
        """
        return wait_for(
            self._files, self._span, step, mode=mode, timeout_s=timeout_s, poll_s=POLL_S
        )

    def follow(self, mode: ModeName | None = None, poll_s: float = POLL_S) -> Iterator[StepStatus]:
        """Yield the steps that are there, then those that come, until the job has ended.

        A step comes once, in order, when every worker has it, has passed it or is gone; by
        then every method answers for it. What a worker brings later that was not waited for
        is not told again. Afterwards `state` tells a finished run from a
        crashed one. A job that was restarted brings the steps again that it does again,
        with another `attempt`.

        Args:
            mode: of the steps; None means all.
            poll_s: pause between two looks, seconds.
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
        """Return the tensors that match everything that is given.

        Args:
            pattern: a glob over names and module paths, or, as in a collection,
                `gradients:blocks.0.*`, or `re:` and a regular expression for `kind:name`.
            kind: e.g. `gradient`, or `gradients`.
            collection: a built-in one (`gradients`) or one of the run's own (`collections`).
            step: of the job at which it was captured.
            mode: in which it was captured.
            worker: that captured it; None means any.

        Raises:
            UnknownNameError: there is no such kind, collection, mode or worker; names the nearest.
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

        Where tensors of several kinds bear the name, a weight comes before its gradient.

        Raises:
            UnknownNameError: there is none; names the nearest.
        """
        return choosing.one_tensor(self._span, name)

    def scalars(
        self,
        pattern: str = "*",
        mode: ModeName | None = None,
        *,
        worker: Merged | int | None = None,
    ) -> tuple[RunSeries, ...]:
        """Return the scalars of one worker, or of the job, over the whole run.

        Args:
            pattern: glob over `name` or `name:of`, e.g. `loss`, `lr:*`. Digests (see
                `core.digests`) are left out unless it begins with `digest`.
            mode: of the steps; None means all modes.
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
        """Return statistics of tensors of one worker, or of whole ones, over steps of a mode.

        Args:
            kind: of the tensors, e.g. `gradient`, or `gradients`.
            layers: glob over tensor names and module paths.
            statistics: ids, see `statistics.summary.STATISTICS`, or one of them.
            mode: of the steps.
            worker: rank, or "merged".

        Returns:
            A matrix for each statistic; without rows where nothing was captured. Several
            evaluations in one step of the job are rows of their own.

        Raises:
            UnknownNameError: there is no such kind or statistic; names the nearest.
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
        """Return what `stats` returns as variables over (step, layer).

        Raises:
            MissingExtraError: xarray is not installed.
        """
        matrices = self.stats(kind, layers, statistics, mode=mode, worker=worker)
        return tables.dataset(matrices, kind)

    def table(self, name: str) -> pa.Table:
        """Return everything of one sort as an Arrow table, of all workers.

        From there `.to_pandas()`, `polars.from_arrow(table)`, `.column(x).to_numpy()`.

        Args:
            name: one of `tables.TABLES`.

        Raises:
            UnknownNameError: there is no such table; names the nearest.
        """
        return tables.table(self, self._span, name)

    def sql(self, query: str) -> pa.Table:
        """Answer a query in SQL, over views that are named as the tables of `table`.

        Raises:
            MissingExtraError: duckdb is not installed.
            QueryError: the query cannot be answered; says why.
        """
        return sql.answer(query, self._span, self.table)

    def timed(self, name: str, worker: int | None = None) -> TimedRows:
        """Return the rows of a table that goes by time and not by step, of all attempts.

        Args:
            name: of the table, e.g. `machine`.
            worker: rank; None means the lowest.

        Raises:
            UnknownNameError: the worker has no such table; names the nearest.
        """
        return timed_rows((part.view.folder for part in self.parts(worker)), name)

    def records(self, worker: int | None = None) -> Iterator[StepRecord]:
        """Yield the captured records as they lie on the disk, attempt after attempt.

        Args:
            worker: rank; None means all workers, one by one.
        """
        for rank in self.workers if worker is None else (worker,):
            for view in self._span.views(rank):
                for record in ReadState(view.folder).poll():
                    if record.key.step in self._span.bounds:
                        yield record

    def histories(self) -> Iterator[tuple[int, int, int, Iterator[StepRecord]]]:
        """Yield what each worker captured in each attempt, as the rules were given it.

        Yields:
            The attempt, the worker's rank, how many records there are, and the records.
        """
        for number, attempt in sorted(self._span.attempts.items()):
            for rank, view in sorted(attempt.workers.items()):
                yield number, rank, len(view.commits), ReadState(view.folder).poll()

    def parts(self, worker: int | None = None) -> list[Part]:
        """Return what a worker did, attempt after attempt, and what of it counts.

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
