"""`mothtrap.watch`: observe one model from inside a script, a notebook or a REPL."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.adapters import Given, Handle
from mothtrap.core.config import Config, is_disabled, load_config
from mothtrap.core.errors import ConfigError, nearest
from mothtrap.core.replays import PLAN_VARIABLE
from mothtrap.core.run_names import check_name
from mothtrap.core.steps import Mode
from mothtrap.monitor.catalogue import left_out_of
from mothtrap.monitor.reactions import load_reactions
from mothtrap.session import launch, startup, uploading
from mothtrap.session.adapters import adapters_of
from mothtrap.session.record.keeper import RecordKeeper
from mothtrap.session.record.logging import RecordLog
from mothtrap.session.resuming import restarts_of
from mothtrap.session.watched_run import WatchedRun
from mothtrap.session.worker import Worker
from mothtrap.tracing.handle import AdapterSpec
from mothtrap.tracing.jobs.notebooks import notebook_name
from mothtrap.tracing.jobs.process_job import ProcessJob


class Watch(RecordLog):
    """Observation of a model; returned by `mothtrap.watch`.

    It ends at `close`, at the end of its `with` block, or with the process. An exception that
    leaves the `with` block is recorded as the reason why the training ended.

    Attributes:
        path: folder of the run; None before the first step, or if no run is stored.
    """

    def __init__(
        self,
        step: Callable[[Any, dict[str, float]], None],
        log: Callable[[str, float, float | None], None],
        log_tensor: Callable[[str, Any], None],
        close: Callable[[BaseException | None], None],
        path: Callable[[], Path | None],
        job: ProcessJob | None = None,
        record: RecordKeeper | None = None,
    ) -> None:
        super().__init__(record)
        self._job = job
        self._step, self._log, self._close, self._path = step, log, close, path
        self._log_tensor = log_tensor

    @property
    def path(self) -> Path | None:
        """Folder of the run; None before the first step, or if no run is stored."""
        return self._path()

    def step(
        self, loss: Any = None, scalars: Mapping[str, float] | Any = None, **numbers: Any
    ) -> None:
        """Record a loss and other numbers for the optimizer step that was just made.

        Never raises an exception. Values that are not numbers are skipped and reported in the run.

        Args:
            loss: the loss of the step, a number or a one-element tensor. Pass the tensor so that
                mothtrap sees how the loss was computed.
            scalars: further numbers by name.
            **numbers: further numbers, e.g. `accuracy=0.5`.
        """
        if scalars is not None and not isinstance(scalars, Mapping):
            scalars = {"scalars": scalars}
        self._step(loss, {**(scalars or {}), **numbers})

    def log(self, name: str, value: float, timestamp: float | None = None) -> None:
        """Record a number for the current step.

        After `optimizer.step()`, the current step is the step just made. If an evaluation has run
        since, or if no further step follows, it is the next step. A name that is logged before the
        forward pass of the first step always belongs to the step that is about to begin.

        Never raises an exception. A value that is not a number is skipped and reported once.

        Args:
            name: name of the scalar.
            value: a number.
            timestamp: Unix time of the measurement in seconds, if it should be stored; read it with
                `run.observations(NumberLogged)`.
        """
        self._log(name, value, timestamp)

    def log_all(self, values: Mapping[str, Any]) -> None:
        """Record the numbers among values that the script also logs to another tool.

        Never raises an exception. A number that is logged twice in a step, in two ways, is recorded
        once. Values that are not numbers are skipped.

        Args:
            values: values by name; names of nested mappings are joined with `/`.
        """
        if self._job is not None:
            self._job.numbers.add(values)

    def log_tensor(self, name: str, value: Any) -> None:
        """Record all values of an array for the current step, as the tensor `metric:<name>`.

        Never raises an exception. A value that is not an array is skipped and reported once. Arrays
        that exceed the memory limit are dropped and counted.

        Args:
            name: name of the tensor; further values in the same step are `name#1`, `name#2` ...
            value: a number, numpy array, nested lists of numbers, or tensor of the framework, of
                any shape. It is copied during the call.
        """
        self._log_tensor(name, value)

    @contextmanager
    def mode(self, mode: Literal["train", "eval", "predict"]) -> Iterator[None]:
        """Set the mode of the forward passes inside a `with` block.

        By default, a forward pass with a backward pass is training. A forward pass without
        autograd, or of a module in evaluation mode, is evaluation. All others are predictions.

        Args:
            mode: `"train"`, `"eval"`, or `"predict"`; losses computed in `"predict"` do not count
                as evaluation losses.

        Raises:
            ValueError: the mode is unknown.
        """
        if mode not in tuple(Mode):
            hint = nearest(str(mode), [each.value for each in Mode])
            raise ValueError(f"mode: expected train, eval or predict, not {mode!r}{hint}")
        if self._job is None:
            yield
            return
        before, self._job.asked_mode = self._job.asked_mode, Mode(mode)
        try:
            yield
        finally:
            self._job.asked_mode = before

    def close(self) -> None:
        """Record the last step, remove all hooks, and close the files; safe to call twice."""
        self._close(None)

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(error if isinstance(error, Exception | KeyboardInterrupt) else None)

    def __repr__(self) -> str:
        return f"<mothtrap.Watch {self.path or 'before the first step'}>"


def watch(
    model: Any,
    optimizer: Any | Sequence[Any] | None = None,
    *,
    name: str | None = None,
    **settings: Any,
) -> Watch:
    """Watch a model and its optimizer; other objects are not touched.

    In a script started by `mothtrap run`, the returned `Watch` belongs to that run, and the
    collections in `settings` are added to the run's collections. In a `torch.distributed` job, each
    process watches its own model, and all processes write to one run.

    Args:
        model: a model of a supported framework, e.g. `torch.nn.Module`, or a list of models of
            one framework, such as generator and discriminator.
        optimizer: the optimizer, or a list of optimizers; without one, each call to `Watch.step`
            counts as a step.
        name: name of the run; by default the name of the script and the time.
        **settings: keys of the configuration file, e.g. `capture="everything"`.

    Returns:
        A `Watch`, which can be used in a `with` statement.

    Raises:
        TypeError: no adapter accepts the model, or the models belong to different frameworks.
        ConfigError: a setting is unknown or invalid, or the name cannot be used for a folder.
    """
    if is_disabled(os.environ) or os.environ.get(PLAN_VARIABLE):
        return _nothing()
    models = tuple(model) if isinstance(model, list | tuple) else (model,)
    if not models:
        raise TypeError("watch: the list of models is empty; pass one or more models")
    adapters = adapters_of(models[0])
    for other in models[1:]:
        if adapters_of(other) != adapters:
            raise TypeError(
                f"watch: a {type(models[0]).__qualname__} and a {type(other).__qualname__} belong "
                "to different frameworks; call watch once for each"
            )
    _check_known(settings)
    given = optimizer if isinstance(optimizer, list | tuple) else (optimizer,)
    targets = (*models, *(each for each in given if each is not None))
    running = _running(adapters, name)
    if running is not None:
        _take_part(running, settings)
        worker, closes = running, running is not startup.process_worker()
    else:
        worker, closes = _begin(adapters, name, settings), True
    handles = _attach(worker, adapters, targets)
    return Watch(
        functools.partial(_step, _stepping(adapters, handles), len(targets) == len(models)),
        worker.logged.number,
        worker.logged.tensor,
        functools.partial(_close, worker, handles) if closes else lambda _: None,
        lambda: worker.path,
        worker.job,
        worker.record,
    )


def _running(adapters: Sequence[AdapterSpec], name: str | None) -> Worker | None:
    """Return the worker that a watch joins: the worker of the process, or of another watch.

    Several watched models of one framework have separate runs, and so do models with a given run
    name. Models of different frameworks share one run.
    """
    if (worker := startup.process_worker()) is not None:
        return worker
    worker = startup.current_worker()
    if (
        worker is None
        or name
        or any(worker.adapters.handle_of(each) is not None for each in adapters)
    ):
        return None
    return worker


def _attach(
    worker: Worker, adapters: Sequence[AdapterSpec], targets: Sequence[object]
) -> list[Handle]:
    """Let adapters watch objects, unless they watch the whole process."""
    handles = []
    try:
        for adapter in adapters:
            handle = worker.adapters.handle_of(adapter)
            if handle is None:
                attach = functools.partial(adapter.attach, targets=targets)
                handle = worker.attach(adapter, attach)
            handles.append(handle)
    except BaseException:
        for handle in handles:
            worker.detach(handle)
        raise
    worker.adapters.check_options(handles)
    return handles


def _stepping(adapters: Sequence[AdapterSpec], handles: Sequence[Handle]) -> Handle:
    """Return the handle of the adapter that is most specific to the model, and counts its steps."""
    counting = [
        handle for adapter, handle in zip(adapters, handles, strict=True) if adapter.steps == "own"
    ]
    return (counting or list(handles))[-1]


def _step(handle: Handle, makes_step: bool, loss: Any, numbers: Mapping[str, Any]) -> None:
    """Pass the user's arguments to an adapter."""
    handle.step(Given(loss=loss, numbers=numbers, makes_step=makes_step))


def _close(worker: Worker, handles: Sequence[Handle], error: BaseException | None) -> None:
    """Detach the handles of a watch; close the run with the last of them."""
    if worker.adapters.are_only(handles):
        startup.finish(worker, error)
        return
    for handle in handles:
        worker.detach(handle)


def _begin(
    adapters: Sequence[AdapterSpec], name: str | None, settings: Mapping[str, Any]
) -> Worker:
    """Create the worker of a run that begins at its first step."""
    if name:
        check_name(name, "watch: name")
    config, warnings = load_config(start=Path.cwd(), environ=os.environ, overrides=settings)
    for warning in (*warnings, *map(str, left_out_of(config.rule_files))):
        say_on_stderr(f"mothtrap: {warning}")
    command = [sys.executable, *sys.argv]
    notebook = notebook_name()
    called = [notebook] if notebook else command if sys.argv[0] else ["session"]
    load_reactions(config)
    uploading.folder_for(config.runs_dir)  # invalid settings are reported before the training
    run = WatchedRun(
        name,
        launch.default_name(called),
        command,
        config,
        lambda: worker.adapters.environment().store,
        lambda: worker.adapters.environment().rank,
        say_on_stderr,
    )
    worker = Worker(
        run.open,
        config,
        adapters[0].arrays,
        say_on_stderr,
        last_word=run.last_word,
        is_compared=lambda: run.is_shared,
    )
    worker.afterwards(run.close)
    if restarts_of(os.environ):
        worker.job.resumption = run.resume
    startup.keep(worker)
    return worker


def _check_known(settings: Mapping[str, Any]) -> None:
    known = Config.__struct_fields__
    for setting in settings:
        if setting not in known:
            raise ConfigError(
                f"watch: unknown setting {setting!r}{nearest(setting, known)}; "
                f"known settings: {', '.join(known)}"
            )


def _take_part(worker: Worker, settings: Mapping[str, Any]) -> None:
    """Add collections to a watched job; report the collections that are rejected."""
    asked, _ = load_config(start=Path.cwd(), environ={}, overrides=settings)
    if "collections" in settings and worker.config.capture != "off":
        names = settings["collections"]
        worker.add_collections({n: c for n, c in asked.collections.items() if n in names})
    left = [
        setting
        for setting in settings
        if setting != "collections" and getattr(asked, setting) != getattr(worker.config, setting)
    ]
    if left and worker is startup.process_worker():
        say_on_stderr(
            f"mothtrap: watch: {', '.join(left)} ignored, because `mothtrap run` has its own "
            "settings; pass it to `mothtrap run`, or set it in mothtrap.toml"
        )
    elif left:
        say_on_stderr(
            f"mothtrap: watch: {', '.join(left)} ignored, because this call joins the run of a "
            "watch that is still open; pass it to that watch, or give this watch a name"
        )


def _nothing() -> Watch:
    def ignore(*_: Any) -> None:
        pass

    return Watch(ignore, ignore, ignore, ignore, ignore)
