"""Evaluate rules on many stored runs, serially or on an executor (PEP 3148)."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import ExitStack
from pathlib import Path

from mothtrap.core import jsonable
from mothtrap.core.config import Config, load_config, plain
from mothtrap.core.errors import RunNotFoundError
from mothtrap.monitor.catalogue import load_rules
from mothtrap.monitor.executors import open_executor
from mothtrap.monitor.stored.associations import Association, associations, faults_of
from mothtrap.monitor.stored.unit import StoredVerdict, Unit, evaluate, verdict_of
from mothtrap.reader.run import Run
from mothtrap.store import layout
from mothtrap.store.find_runs import list_runs
from mothtrap.store.objects import is_url, join
from mothtrap.store.remote import place_of

Named = str | Path | Run


def analyze(
    runs: Named | Iterable[Named],
    executor: Executor | str | None = None,
    rules: Sequence[str | Path] | None = None,
    *,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    skip_done: bool = False,
    workers: int | None = None,
) -> Analysis:
    """Evaluate rules on stored runs, and yield each run's result as soon as it is ready.

    Args:
        runs: runs, folders of runs, globs or URLs of them, or `Run` objects.
        executor: evaluates the runs: any `concurrent.futures.Executor`, or a name: `processes`,
            `dask`, `dask://HOST:PORT`, `ray`, `ray://HOST:PORT`. None evaluates the runs in this
            process, one by one.
        rules: Python files with additional rules; by default the configuration's rule files.
        select: rules to evaluate, by code or family; by default the configuration's selection.
        ignore: rules to skip, by code or family.
        skip_done: reuse results that an earlier call stored for the same rules and data.
        workers: number of processes to start if `executor` is a name.

    Returns:
        An iterable with one result per run.

    Raises:
        RunNotFoundError: a name matches no run.
        ConfigError: the configuration, a rule, or the executor's name is wrong.
    """
    overrides = {
        "rule_files": tuple(map(str, rules)) if rules is not None else None,
        "select": tuple(select) if select is not None else None,
        "ignore": tuple(ignore) if ignore is not None else None,
    }
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    named = [runs] if isinstance(runs, str | Path | Run) else runs
    return Analysis(
        places(named, config.runs_dir), config, executor, skip_done=skip_done, workers=workers
    )


def places(named: Iterable[Named], runs_dir: str) -> list[str]:
    """Return the distinct paths and URLs of the named runs.

    Args:
        named: runs, folders of runs, globs or URLs of them, names of runs.
        runs_dir: folder or URL in which names are looked up.

    Raises:
        RunNotFoundError: a name matches no run.
    """
    found: dict[str, None] = {}
    for each in named:
        found |= dict.fromkeys(_places(each, runs_dir))
    return list(found)


def _places(named: Named, runs_dir: str) -> list[str]:
    if isinstance(named, Run):
        return [place_of(named.path)]
    if is_url(named):
        inside = [place_of(path) for path in list_runs(str(named))]
        return inside or [str(named)]
    if glob.has_magic(str(named)):
        paths = [Path(path) for path in sorted(glob.glob(str(named)))]
        known = [str(path) for path in paths if layout.attempts(path)]
        if not known:
            raise RunNotFoundError(f"no run found: {str(named)!r} matches none in {Path.cwd()}")
        return known
    if not layout.attempts(Path(named)) and (inside_here := layout.list_runs(Path(named))):
        return [str(path) for path in inside_here]
    if is_url(runs_dir) and not layout.attempts(Path(named)):
        return [join(runs_dir, str(named))]
    return [str(layout.find_run(named, runs_dir))]


class Analysis:
    """Iterable results of rules on stored runs; yields each result as soon as it is ready.

    Iterating again gives the same results in the same order. Returned by `mothtrap.analyze`.

    Args:
        places: paths and URLs of the runs.
        config: the configuration with the selected rules and their thresholds.
        executor: an executor or its name; None evaluates the rules in this process.
        skip_done: reuse stored results of the same rules and data.
        workers: number of processes that an executor given by name starts.

    Raises:
        ConfigError: a rule or threshold does not exist.
    """

    def __init__(
        self,
        places: Sequence[str],
        config: Config,
        executor: Executor | str | None = None,
        *,
        skip_done: bool = False,
        workers: int | None = None,
    ) -> None:
        load_rules(config)  # raises here, once, instead of for each run
        self._executor, self._workers = executor, workers
        known = jsonable.decode(jsonable.encode(plain(config)), Config)  # without secrets
        self._units = [
            Unit(run=_absolute(place), config=known, skips_done=skip_done) for place in places
        ]
        self._ready: list[StoredVerdict] = []
        self._coming = self._evaluated()

    def __len__(self) -> int:
        return len(self._units)

    def __iter__(self) -> Iterator[StoredVerdict]:
        done = 0
        while True:
            while done < len(self._ready):
                yield self._ready[done]
                done += 1
            following = next(self._coming, None)
            if following is None:
                return
            self._ready.append(following)

    def by(self, *options: str) -> tuple[Association, ...]:
        """Return associations between parameter values and findings, strongest first.

        Waits for all results. Findings of severity `info` and runs that could not be evaluated are
        ignored.

        Args:
            options: names of parameters; by default every parameter that differs between runs.
        """
        known = [verdict for verdict in self if not verdict.error]
        return associations(((v.options, faults_of(v.findings)) for v in known), options)

    def _evaluated(self) -> Iterator[StoredVerdict]:
        if self._executor is None:
            for unit in self._units:
                yield verdict_of(evaluate(jsonable.encode(unit)))
            return
        with ExitStack() as stack:
            executor = self._executor
            if isinstance(executor, str):
                executor = stack.enter_context(open_executor(executor, self._workers))
            futures: dict[Future[bytes], Unit] = {
                executor.submit(evaluate, jsonable.encode(unit)): unit for unit in self._units
            }
            stack.callback(_cancel, futures)
            for future in as_completed(futures):
                yield _result(future, futures[future])


def _result(future: Future[bytes], unit: Unit) -> StoredVerdict:
    try:
        return verdict_of(future.result())
    except Exception as err:  # error of the engine: a process was killed, or a machine was lost
        why = f"its worker failed: {type(err).__name__}: {err}".rstrip(": ")
        return StoredVerdict(run=unit.run, error=why)


def _cancel(futures: Iterable[Future[bytes]]) -> None:
    """Cancel tasks that have not begun, because their results are no longer needed."""
    for future in futures:
        future.cancel()


def _absolute(place: str) -> str:
    """Return a location in a form that workers in other folders can find."""
    return place if is_url(place) else str(Path(place).absolute())
