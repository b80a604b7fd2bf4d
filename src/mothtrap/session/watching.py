"""`mothtrap.watch`: observe one model from inside a script, a notebook or a REPL."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core import registry
from mothtrap.core.config import Config, is_disabled, load_config
from mothtrap.core.errors import ConfigError, nearest
from mothtrap.core.replays import PLAN_VARIABLE
from mothtrap.core.run_names import check_name
from mothtrap.session import launch, startup, uploading
from mothtrap.session.resuming import restarts_of
from mothtrap.session.watched_run import WatchedRun
from mothtrap.session.worker import Worker


class Watch:
    """A model under observation; ends at `close`, at the end of a `with`, or of the process.

    An exception that leaves the block of the `with` is kept as that which ended the training.

    Attributes:
        path: folder of the run; None before the first step, or when nothing is stored.
    """

    def __init__(
        self,
        step: Callable[[Any, dict[str, float]], None],
        log: Callable[[str, float], None],
        log_tensor: Callable[[str, Any], None],
        close: Callable[[BaseException | None], None],
        path: Callable[[], Path | None],
    ) -> None:
        self._step, self._log, self._close, self._path = step, log, close, path
        self._log_tensor = log_tensor

    @property
    def path(self) -> Path | None:
        """Folder of the run."""
        return self._path()

    def step(
        self, loss: Any = None, scalars: Mapping[str, float] | Any = None, **numbers: Any
    ) -> None:
        """Attach a loss and numbers to the optimizer step just done.

        Never raises: what is no number is left out, and told in the run.

        Args:
            loss: the loss of the step, a number or a one-element tensor; a tensor also
                tells how it was computed.
            scalars: more numbers by name.
            **numbers: the same, e.g. `accuracy=0.5`.
        """
        if scalars is not None and not isinstance(scalars, Mapping):
            scalars = {"scalars": scalars}
        self._step(loss, {**(scalars or {}), **numbers})

    def log(self, name: str, value: float) -> None:
        """Record a number of the step in progress."""
        self._log(name, value)

    def log_tensor(self, name: str, value: Any) -> None:
        """Keep an array of the step in progress whole, as `metric:<name>`.

        Never raises: what is no array is left out, and told once; what finds no memory is
        counted.

        Args:
            name: of the tensor; further values in the same step are `name#1`, `name#2` ...
            value: a number, numpy array, nested lists of numbers, or tensor of the
                framework; is read now, and not held.
        """
        self._log_tensor(name, value)

    def close(self) -> None:
        """Record the last step, remove all hooks, seal the files; twice does no harm."""
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
    """Watch a model and its optimizer; touches only the objects given.

    Inside a script started by `mothtrap run`, which watches everything, this gives `step` and
    `log` their meaning, and adds its collections to those of the run. Where each process of a
    `torch.distributed` job watches its own model, all of them write to one run.

    Args:
        model: a model of a framework that mothtrap knows, e.g. `torch.nn.Module`.
        optimizer: its optimizer, or several; none = `step` counts the steps.
        name: of the run; default: script and time.
        **settings: as in the configuration file, e.g. `capture="everything"`.

    Raises:
        TypeError: no adapter accepts the model.
        ConfigError: a setting is unknown or has a bad value, or the name is that of no folder.
    """
    if is_disabled(os.environ) or os.environ.get(PLAN_VARIABLE):
        return _nothing()
    adapter = _adapter_of(model)
    _check_known(settings)
    running = startup.process_watch()
    if running is not None:
        worker, tracer = running
        _take_part(tracer, settings)
        step = functools.partial(tracer.step_given, counts=not optimizer)
        return Watch(
            step, worker.logged.number, worker.logged.tensor, lambda _: None, lambda: worker.path
        )
    if name:
        check_name(name, "watch: name")
    config, warnings = load_config(start=Path.cwd(), environ=os.environ, overrides=settings)
    for warning in warnings:
        say_on_stderr(f"mothtrap: {warning}")
    command = [sys.executable, *sys.argv]
    uploading.folder_for(config.runs_dir)  # what cannot be used is said before the training

    run = WatchedRun(
        name,
        launch.default_name(command if sys.argv[0] else ["session"]),
        command,
        config,
        adapter.job_store,
        lambda: adapter.ranks()[0],
        say_on_stderr,
    )
    worker = Worker(
        run.open,
        config,
        adapter,
        say_on_stderr,
        last_word=run.last_word,
        is_compared=lambda: run.is_shared,
    )
    worker.afterwards(run.close)
    if optimizer is None:
        optimizer = ()
    several = isinstance(optimizer, list | tuple)
    optimizers = tuple(optimizer) if several else (optimizer,)
    handle = adapter.attach(model, optimizers, worker.recorder, config)
    if restarts_of(os.environ):
        handle.tracer.saved_weights.resume = run.resume
    worker.holds(handle)
    startup.keep(worker, handle)
    return Watch(
        handle.step,
        worker.logged.number,
        worker.logged.tensor,
        functools.partial(startup.finish, worker),
        lambda: worker.path,
    )


def _check_known(settings: Mapping[str, Any]) -> None:
    known = Config.__struct_fields__
    for setting in settings:
        if setting not in known:
            raise ConfigError(
                f"watch: unknown setting {setting!r}{nearest(setting, known)}; "
                f"known settings: {', '.join(known)}"
            )


def _take_part(tracer: Any, settings: Mapping[str, Any]) -> None:
    """Add the collections of a call to those of a job that is watched; say what is not taken."""
    asked, _ = load_config(start=Path.cwd(), environ={}, overrides=settings)
    job = tracer.config
    if "collections" in settings and job.capture != "off":
        names = settings["collections"]
        new = {n: c for n, c in asked.collections.items() if n in names}
        tracer.contain_part("collections", tracer.recorder.changes.make, new)
    left = [k for k in settings if k != "collections" and getattr(asked, k) != getattr(job, k)]
    if left:
        say_on_stderr(
            f"mothtrap: watch: {', '.join(left)} of the call: not taken, since `mothtrap run` has "
            "settings of its own; give it to that, or write it to mothtrap.toml"
        )


def _adapter_of(model: Any) -> Any:
    """The adapter whose framework the model's type comes from."""
    bases = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    for name in registry.names("mothtrap.adapters"):
        if name in bases:
            adapter: Any = registry.load("mothtrap.adapters", name)
            if adapter.accepts(model):
                return adapter
    raise TypeError(
        f"cannot watch a {type(model).__module__}.{type(model).__qualname__}: no adapter accepts "
        f"it; mothtrap knows models of: {', '.join(registry.names('mothtrap.adapters'))}"
    )


def _nothing() -> Watch:
    return Watch(*[lambda *_: None] * 5)
