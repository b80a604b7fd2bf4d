"""Observe a process that another program started, such as a worker of Ray.

`mothtrap run` puts its start-up hook on the path of each process. Here the hook is loaded later,
when the process may have imported frameworks already.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping

from mothtrap.core.config import is_disabled
from mothtrap.session import startup
from mothtrap.session.adapters import load
from mothtrap.session.launch import RECORDED_COLLECTIVES
from mothtrap.session.site_folder import SITE
from mothtrap.session.triggers import framework_of, triggers


def join(variables: Mapping[str, str]) -> None:
    """Observe the training in this process as a worker of a run.

    Does nothing in a process that is already observed.

    Args:
        variables: variables of `session.launch.run_variables`.
    """
    if is_disabled(os.environ) or "MOTHTRAP_RUN_DIR" in os.environ:
        return
    os.environ.update(variables)
    os.environ.setdefault(RECORDED_COLLECTIVES, "100")
    spec = importlib.util.spec_from_file_location("mothtrap_start", SITE / "sitecustomize.py")
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    imported = [name for name in triggers() if name in sys.modules]
    for name in sorted(imported, key=_is_built_on_another):
        startup.attach(name)


def leave(error: BaseException | None = None) -> None:
    """Close the record of this process before the engine kills it.

    Args:
        error: exception that ended the training, if any.
    """
    worker = startup.process_worker()
    if worker is not None:
        startup.finish(worker, error)


def _is_built_on_another(trigger: str) -> bool:
    """Return whether the adapter extends another one, which must be attached before it."""
    return load(framework_of(trigger)).refines is not None
