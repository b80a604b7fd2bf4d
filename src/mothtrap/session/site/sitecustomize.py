"""The start-up hook of `mothtrap run`, in every Python process of the job.

It is on PYTHONPATH, so it hides the environment's own `sitecustomize`, which it runs first. It
imports only the standard library: mothtrap itself is loaded when the process has imported a
framework. In a process that imports only a parser of settings, one small module of mothtrap is
loaded, which also imports nothing but the standard library.
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
"""Parser modules; the settings of the script are recorded in the run."""

_LARGE = ("torch._dynamo",)
"""Modules that take as long to import as a framework, but have no adapter."""
_FEW = 200_000
"""Maximum number of existing objects at which the objects of a framework are excluded from
collection; pandas and scikit-learn create fewer. Chosen by hand.
"""
_NOT_OF_THE_USER = (
    __file__,
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
    "<frozen runpy>",
)

SAVED_S = 2.0e-6
"""Seconds that are subtracted from the cost for each excluded object, because collections become
shorter by the end of the process: 0.53 s for the 265,000 objects of torch 2.13. Without mothtrap,
pausing the collection during the import saves 0.58 to 0.95 s (medians of 8 to 36 pairs of
processes on three x86_64 machines), but mothtrap creates objects later that are collected again:
0.15 s. With this number, the reported cost of the programs of `bench/whole.py` is closest.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType


def _run_hidden_sitecustomize() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _AfterImport:
    """Import finder that delegates to the others, and calls mothtrap after an import."""

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
            self._frameworks.add(name)  # checking whether a module exists imports nothing
        if spec is None or spec.loader is None:
            return spec
        loader, run = spec.loader, spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.__dict__["exec_module"]  # restore the loader before other code uses it
            self._frameworks.discard(name)
            paused = None if name in self._parsers else _PausedCollection()
            try:
                run(module)
            except BaseException as err:
                self._frameworks.add(name)  # the module may be imported again
                if err.__traceback__ is not None:
                    err.__traceback__ = err.__traceback__.tb_next  # without this frame
                raise
            else:
                made = gc.get_count()[0]  # minus deleted objects
                if name in self._parsers:
                    _see_parser(name)
                elif name not in _LARGE:
                    _attach(name)
                if paused is not None:
                    paused.report(made)
            finally:
                if paused is not None:
                    paused.end()

        loader.__dict__["exec_module"] = exec_module
        return spec


class _PausedCollection:
    """Pauses garbage collection until `end`, unless it is already disabled.

    Importing a framework creates half a million permanent objects. Each collection traverses them:
    0.6 s during an import of torch, 0.3 s in the first seconds of training, and 0.5 s at the end of
    the process. They are excluded from collection (`gc.freeze`) if no objects of the user can be
    among them, that is, if the import is at the top of a script, and few objects existed before it.
    """

    def __init__(self) -> None:
        self._paused = gc.isenabled()
        self._sets_aside = self._paused and _is_at_the_top() and _few_objects()
        self._references = sys.getrefcount(sys.modules["__main__"])
        gc.disable()

    def report(self, made: int) -> None:
        """Report the saved time to the session, from the number of created objects."""
        session = sys.modules.get("mothtrap.session.startup")
        if self._sets_aside and session is not None:
            session.saved(SAVED_S * made)

    def end(self) -> None:
        if self._sets_aside:
            if sys.getrefcount(sys.modules["__main__"]) > self._references:
                _forget_script_in_copies()
            gc.freeze()
        if self._paused:
            gc.enable()


def _forget_script_in_copies() -> None:
    """Remove the script from the copies of `sys.modules` that `inspect.signature` leaves behind.

    If it inspects a C function, it leaves a reference cycle with such a copy (CPython 3.11 to
    3.13). `gc.freeze` excludes this cycle from garbage collection. It would then keep the variables
    of the script alive until the modules that their `__del__` uses are gone, and XGBoost would
    print an AttributeError at the end.
    """
    script = sys.modules["__main__"]
    for copy in gc.get_referrers(script):
        if type(copy) is dict and copy is not sys.modules and copy.get("sys") is sys:
            holders = [one for one in gc.get_referrers(copy) if type(one).__name__ == "cell"]
            if holders and all(_is_of_inspect(holder) for holder in holders):
                copy.pop("__main__", None)


def _is_of_inspect(cell: object) -> bool:
    functions = (one for holder in gc.get_referrers(cell) for one in gc.get_referrers(holder))
    return any(getattr(one, "__module__", "") == "inspect" for one in functions)


def _is_at_the_top() -> bool:
    """Return whether only modules are being imported, and no function has been called."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name != "<module>" and code.co_filename not in _NOT_OF_THE_USER:
            return False
        frame = frame.f_back
    return True


def _few_objects() -> bool:
    if len(gc.get_objects()) > _FEW:
        return False
    gc.collect()  # existing garbage would be kept
    return True


def _see_parser(name: str) -> None:
    try:
        from mothtrap.session.record.parsed import install

        install(name)
    except Exception as err:
        _say(f"cannot record the arguments that {name} parses ({type(err).__name__}: {err})")


def _attach(framework: str) -> None:
    began_s = time.perf_counter()
    try:
        from mothtrap.session.startup import attach

        attach(framework, began_s)
    except Exception as err:
        _say(f"cannot watch {framework} in this process ({type(err).__name__}: {err})")
        with suppress(Exception):  # the same error may prevent this import
            from mothtrap.session.unobserved import store_start_failure

            store_start_failure(f"start-up hook for {framework}", err)


def _say(text: str) -> None:
    try:
        sys.stderr.write(f"mothtrap: {text}; training continues unobserved\n")
    except (OSError, ValueError, AttributeError):
        return


try:
    if __name__ == "sitecustomize":  # otherwise `session.joined_process` loads it later
        _run_hidden_sitecustomize()
finally:
    _watched = os.environ.get("MOTHTRAP_RUN_DIR") or os.environ.get("MOTHTRAP_REPLAY")
    if _watched and os.environ.get("MOTHTRAP_DISABLE", "") in ("", "0"):
        if os.environ.get("MOTHTRAP_CHECK"):
            from mothtrap.session.protected_files import protect

            protect(os.environ["MOTHTRAP_CHECK"])
        _names = os.environ["MOTHTRAP_FRAMEWORKS"].split(",")
        _parsers = () if os.environ.get("MOTHTRAP_REPLAY") else _PARSERS
        sys.meta_path.insert(0, _AfterImport((*_names, *_LARGE), _parsers))
