"""The start-up hook of `mothtrap run`, in every Python process of the job.

It is on PYTHONPATH, so it hides the environment's own `sitecustomize`, which it runs
first. It imports nothing but the standard library: mothtrap itself is loaded when the
process has imported a framework, and nothing of it is loaded in a process that does not.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def _run_hidden_sitecustomize() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _AfterImport:
    """Finds a framework as everybody does, and calls mothtrap when it has been imported."""

    def __init__(self, frameworks: Iterable[str]) -> None:
        self._frameworks = set(frameworks)

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name not in self._frameworks:
            return None
        self._frameworks.discard(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._frameworks.add(name)  # a look whether it is there imports nothing
        if spec is None or spec.loader is None:
            return spec
        loader, run = spec.loader, spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.__dict__["exec_module"]  # the loader is as it was before anybody sees it
            self._frameworks.discard(name)
            try:
                run(module)
            except BaseException as err:
                self._frameworks.add(name)  # it may be imported again
                if err.__traceback__ is not None:
                    err.__traceback__ = err.__traceback__.tb_next  # without this frame
                raise
            _attach(name)

        loader.__dict__["exec_module"] = exec_module
        return spec


def _attach(framework: str) -> None:
    try:
        from mothtrap.session.startup import attach

        attach(framework)
    except Exception as err:
        _say(f"cannot watch {framework} in this process ({type(err).__name__}: {err})")
        with suppress(Exception):  # the same may keep this from being imported
            from mothtrap.session.unobserved import store_start_failure

            store_start_failure(f"start-up hook for {framework}", err)


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"mothtrap: {text}; training goes on unobserved\n")
    except (OSError, ValueError, AttributeError):
        return


try:
    _run_hidden_sitecustomize()
finally:
    _watched = os.environ.get("MOTHTRAP_RUN_DIR") or os.environ.get("MOTHTRAP_REPLAY")
    if _watched and os.environ.get("MOTHTRAP_DISABLE", "") in ("", "0"):
        sys.meta_path.insert(0, _AfterImport(os.environ["MOTHTRAP_FRAMEWORKS"].split(",")))
