"""Turns a forked process into the interpreter that runs a script or module."""

from __future__ import annotations

import atexit
import builtins
import fcntl
import importlib.machinery
import importlib.util
import os
import runpy
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import spawn
from types import ModuleType

SPARE_FILE = 600
"""Above the numbers of files that a program inherits."""
HIDDEN = {"__mp_main__", "tests"}
_hidden: list[ModuleType] = []
"""Modules that are not part of the program; kept, because their functions are being called."""


def prepare() -> None:
    """Hide modules before the fork: a forked process pays for each page it touches."""
    _hidden.append(sys.modules["__main__"])
    sys.modules["__main__"] = ModuleType("__main__")  # at its place, the first
    for name in [name for name in sys.modules if name.partition(".")[0] in HIDDEN]:
        _hidden.append(sys.modules.pop(name))


def take_files(files: Mapping[int, int]) -> None:
    """Give files the descriptor numbers that they must have."""
    spare = {number: fcntl.fcntl(file, fcntl.F_DUPFD, SPARE_FILE) for number, file in files.items()}
    for file in files.values():
        os.close(file)
    for number, file in spare.items():
        os.dup2(file, number)
        os.close(file)


def become(
    arguments: list[str], environment: dict[bytes, bytes], folder: str, executable: str
) -> None:
    """Run what an interpreter with these arguments would run, and end as it does."""
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(environment)
    tempfile.tempdir = None  # the folder in TMPDIR is determined again
    sys.executable = executable
    spawn.set_executable(executable)
    if (threads := os.environ.get("OMP_NUM_THREADS")) and "torch" in sys.modules:
        import torch

        torch.set_num_threads(int(threads))
    if arguments[0] == "-W":
        sys.warnoptions.append(arguments[1])
        warnings._processoptions([arguments[1]])  # type: ignore[attr-defined]  # as Python does
        del arguments[:2]
    if arguments[0] == "-u":
        del arguments[0]
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    _end(_code_of(lambda: _run(arguments, os.environ.get("PYTHONPATH", ""))))


def _run(arguments: list[str], path: str) -> None:
    main = ModuleType("__main__")
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main  # as multiprocessing calls it
    main.__dict__["__builtins__"] = builtins
    _start_up(path)
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]  # as Python does
    elif arguments[0] == "-c":
        sys.argv[:] = ["-c", *arguments[2:]]
        sys.path[0] = ""
        exec(arguments[1], main.__dict__)
    else:
        _run_script(arguments, main)


def _start_up(path: str) -> None:
    """Do what the `site` module does, because mothtrap's start-up hook is a sitecustomize."""
    folders = [entry for entry in path.split(os.pathsep) if entry]
    sys.path[1:1] = folders
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", folders)
    if spec is None or spec.loader is None:
        return
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    finder = sys.meta_path[0]
    if (
        type(finder).__name__ == "_AfterImport" and "torch" in sys.modules
    ):  # torch is there: it will not be asked for it
        finder._frameworks.discard("torch")  # type: ignore[attr-defined]
        hook._attach("torch")


def _run_script(arguments: list[str], main: ModuleType) -> None:
    path = os.path.abspath(arguments[0])
    sys.argv[:] = arguments
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader, __spec__=None)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _code_of(run: Callable[[], None]) -> int:
    """Return the exit code of a function; print an exception without the frames of this file."""
    try:
        run()
    except SystemExit as err:
        if err.code is None or isinstance(err.code, int):
            return (err.code or 0) & 0xFF
        print(err.code, file=sys.stderr)
        return 1
    except BaseException as err:
        below = err.__traceback__
        while below is not None and below.tb_frame.f_code.co_filename == __file__:
            below = below.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(err), err, below
        sys.excepthook(type(err), err.with_traceback(below), below)
        return -signal.SIGINT if isinstance(err, KeyboardInterrupt) else 1
    return 0


def _end(code: int) -> None:
    """End as the interpreter does, but without freeing memory, which takes far longer."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
