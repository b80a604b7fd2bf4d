"""The start-up hook of `mothtrap run`, in every Python process of the job.

It is on PYTHONPATH, so it hides the environment's own `sitecustomize`, which it runs
first. It imports nothing but the standard library: mothtrap itself is loaded when the
process has imported a framework. In a process that imports none, but a parser of settings, one
small module of it is loaded, which imports nothing but the standard library either.
"""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import os
import sys
import time
from contextlib import suppress

_PARSERS = ("argparse", "hydra.core.utils", "omegaconf.omegaconf")
"""Of settings; what they hand to the script is kept for the record of the run."""

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
    """Finds a module as everybody does, and calls mothtrap when it has been imported."""

    def __init__(self, frameworks: Iterable[str], parsers: Iterable[str] = ()) -> None:
        self._parsers = set(parsers)
        self._frameworks = {*frameworks, *self._parsers}

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
            (_see_parser if name in self._parsers else _attach)(name)

        loader.__dict__["exec_module"] = exec_module
        return spec


def _see_parser(name: str) -> None:
    try:
        from mothtrap.session.record.parsed import install

        install(name)
    except Exception as err:
        _say(f"cannot record the arguments that {name} parses ({type(err).__name__}: {err})")


def _attach(framework: str) -> None:
    collects = gc.isenabled()
    gc.disable()  # a collection amid our imports walks all objects of the framework: 0.1 s of torch
    began_s = time.perf_counter()
    try:
        from mothtrap.session.startup import attach

        attach(framework, began_s)
    except Exception as err:
        _say(f"cannot watch {framework} in this process ({type(err).__name__}: {err})")
        with suppress(Exception):  # the same may keep this from being imported
            from mothtrap.session.unobserved import store_start_failure

            store_start_failure(f"start-up hook for {framework}", err)
    finally:
        if collects:
            gc.enable()


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
        if os.environ.get("MOTHTRAP_CHECK"):
            from mothtrap.session.protected_files import protect

            protect(os.environ["MOTHTRAP_CHECK"])
        _names = os.environ["MOTHTRAP_FRAMEWORKS"].split(",")
        _parsers = () if os.environ.get("MOTHTRAP_REPLAY") else _PARSERS
        sys.meta_path.insert(0, _AfterImport(_names, _parsers))
