"""Class of `mothtrap.RayCallback`, which derives from classes of Ray Train."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mothtrap.capture.containment import say_on_stderr
from mothtrap.core.config import inherited_config, load_config
from mothtrap.core.error_texts import in_one_line
from mothtrap.core.run_names import check_name
from mothtrap.core.working_folder import absolute
from mothtrap.session.joined_job import JoinedJob
from mothtrap.session.joined_process import join, leave
from mothtrap.session.launch import default_name, run_variables
from mothtrap.session.resuming import open_attempt
from mothtrap.store import layout
from mothtrap.store.objects import is_url

_Of: Any = importlib.import_module("ray.train.v2._internal.execution.callback")


def _contained(hook: Callable[..., None]) -> Callable[..., None]:
    """Report an exception of a hook instead of raising it, which would end the training."""

    @functools.wraps(hook)
    def run(*arguments: Any) -> None:
        try:
            hook(*arguments)
        except Exception as err:
            say_on_stderr(
                f"mothtrap: {hook.__name__} failed ({in_one_line(err)}); training continues"
            )

    return run


class WatchingCallback(_Of.ControllerCallback, _Of.WorkerGroupCallback, _Of.WorkerCallback):  # type: ignore[misc]
    """Observe the workers of a trainer; see `session.callbacks.RayCallback`.

    Ray Train copies the callback to its controller, which starts the workers, and to each worker.
    In the controller, it creates the run, compares the workers, and prints the verdict. In a script
    that `mothtrap run` started, the launcher does this.

    Attributes:
        attempt: folder of the attempt that the workers join; None before they start.
    """

    def __init__(self, name: str | None, **settings: Any) -> None:
        if name:
            check_name(name, "RayCallback: name")
        config, warnings = load_config(start=Path.cwd(), environ=os.environ, overrides=settings)
        for warning in warnings:
            say_on_stderr(f"mothtrap: {warning}")
        if not is_url(config.runs_dir):  # controller and workers have different working folders
            config = msgspec.structs.replace(config, runs_dir=absolute(config.runs_dir))
        self._config = inherited_config() or config
        self._command = [sys.executable, *sys.argv]
        self._name = name or default_name(self._command)
        launched = os.environ.get("MOTHTRAP_RUN_DIR")
        self._opened = Path(launched) if launched else None
        self.attempt: Path | None = None
        self._job: JoinedJob | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_job": None}  # it has threads, and belongs to the controller

    @_contained
    def before_worker_group_start(self, _: Any) -> None:
        """Create the run, or the next attempt if the workers are restarted."""
        if self._opened is None:
            self._job = JoinedJob(self._command, self._config, self._name)
            self._opened = self._job.attempt
        again = self.attempt is not None
        latest = max(layout.attempts(self._opened.parent)) + again
        own = layout.attempt_folder(self._opened.parent, latest)
        self.attempt = open_attempt(self._opened, own)

    @_contained
    def after_init_train_context(self) -> None:
        """Start to observe a worker."""
        if self.attempt is None:
            return
        if not self.attempt.is_dir():
            say_on_stderr(
                f"mothtrap: this worker cannot see {self.attempt}, so it is not observed; set "
                "runs_dir to a folder that all machines of the cluster share"
            )
            return
        join(run_variables(self.attempt, self._config))

    @_contained
    def before_worker_shutdown(self) -> None:
        """Close the record of a worker before Ray kills it."""
        train = importlib.import_module("ray.train.v2._internal.execution.context")
        runner = train.get_train_context().execution_context.training_thread_runner
        error = runner.get_error()
        leave(getattr(error, "_base_exc", error))

    @_contained
    def after_controller_finish(self, result: Any) -> None:
        """End the run."""
        self._end(1 if result.error else 0)

    @_contained
    def before_controller_abort(self) -> None:
        """End the run of a job that was interrupted."""
        self._end(130)

    def _end(self, code: int) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.end(code)
