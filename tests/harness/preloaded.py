"""An interpreter for the tests' programs that has already imported torch and mothtrap.

Importing them takes seconds, and most programs of the tests take far less. So one process imports
them, and forks for each program. A forked process is a process of its own, observed like
any other. Another one, without torch, forks for each `mothtrap run`: the less memory a process
has, the less a fork costs. `python -m tests.harness.preloaded ADDRESS` is a process that forks.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import marshal
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.harness import asking, becoming

START_TIMEOUT_S = 300.0
CLIENT = Path(__file__).with_name("asking.py")
ROOT = Path(__file__).parents[2]
IMPORTED = (
    "torch._dynamo",  # which the first optimizer imports
    "torch.distributed.run",
    "torch.nn.parallel",
    "torch.profiler._cupti_monitor",
    "torch.utils.data",
    "mothtrap.adapters.torch.hooks.process_hooks",
    "mothtrap.cli.replay",
    "mothtrap.session.replay_at_end",
    "mothtrap.session.startup",
    "mothtrap.session.unobserved",
    "mothtrap.session.worker",
    "numpy.ma",
    "safetensors",
)
OF_LAUNCHERS = (
    "email.parser",
    "encodings.ascii",
    "mothtrap.adapters",
    "mothtrap.cli.run",
    "mothtrap.monitor.reactions",
    "mothtrap.session.compactor",
    "mothtrap.session.control_client",
    "mothtrap.session.exit_order",
    "mothtrap.session.launch",
    "mothtrap.session.machine",
    "mothtrap.session.reacting",
    "mothtrap.session.side_writer",
    "mothtrap.session.supervision",
    "mothtrap.session.verdict",
    "mothtrap.session.writing",
    "mothtrap.store.compacting",
    "mothtrap.store.patient_log",
    "pyarrow.compute",
)
"""Imports of `mothtrap run`, and of the processes that write and watch beside a job."""
OF_BOOSTING = ("joblib", "narwhals", "pandas", "polars", "scipy.stats")
"""Imports of libraries that boost trees; environments without those libraries lack them."""


class Preloaded:
    """A folder of commands: `python`, and the `torchrun` and `mothtrap` that it runs."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="preloaded-")
        folder = Path(self._folder.name)
        self._address = folder / "address"
        self._processes: list[subprocess.Popen[bytes]] = []
        python = folder / "python"
        ask = shlex.join([sys.executable, "-IS", str(CLIENT), str(self._address), str(python)])
        self.python = _command(python, ask)
        self.torchrun = _command(
            folder / "torchrun", shlex.join([str(python), "-m", "torch.distributed.run"])
        )

    @property
    def pids(self) -> list[int]:
        """The processes that fork; none before `begin`."""
        return [process.pid for process in self._processes]

    def begin(self, environment: Mapping[str, str]) -> None:
        """Start the processes that fork, unless they are running."""
        if self._processes:
            return
        atexit.register(self._end)
        addresses = [f"{self._address}{asking.OF_LAUNCHERS}", str(self._address)]
        for address in addresses:
            command = [sys.executable, "-m", __name__, address]
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=environment,
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    start_new_session=True,
                )
            )
        give_up_s = time.monotonic() + START_TIMEOUT_S
        while missing := [address for address in addresses if not os.path.exists(address)]:
            died = [process for process in self._processes if process.poll() is not None]
            assert not died, "a process that imports mothtrap or torch has died"
            assert time.monotonic() < give_up_s, f"no {missing} after {START_TIMEOUT_S} s"
            time.sleep(0.02)

    def _end(self) -> None:
        """End them; programs that they started continue."""
        for process in self._processes:
            process.communicate()


def _command(path: Path, words: str) -> str:
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def serve(address: str) -> None:
    """Fork a process for every connection; returns when standard input is closed."""
    _import_what_launchers_do()
    if not address.endswith(asking.OF_LAUNCHERS):
        _import_what_scripts_do()
    becoming.prepare()
    _look_at_modules()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + ".new")
    listener.listen(64)
    gc.collect()
    gc.freeze()  # memory that garbage collection never visits stays shared
    os.rename(address + ".new", address)  # it appears once the socket is listening
    programs: dict[int, tuple[int, socket.socket]] = {}
    """Process, and the connection of the requester, by the file that signals its end."""
    while True:
        connections = {asked: ended for ended, (_, asked) in programs.items()}
        ready, _, _ = select.select([listener, 0, *programs, *connections], [], [])
        if 0 in ready:
            return
        for asked, ended in connections.items():
            if ended in ready:
                _report_end(*programs.pop(ended))
                os.close(ended)
            elif asked in ready:  # the requester was killed
                os.kill(programs[ended][0], signal.SIGKILL)
        if listener in ready:
            asked, _ = listener.accept()
            text, files, _, _ = socket.recv_fds(asked, 1 << 20, 253)
            if pid := os.fork():
                with suppress(OSError):
                    asked.sendall(b"%d\n" % pid)
                programs[os.pidfd_open(pid)] = pid, asked
                for file in files:
                    os.close(file)
            else:
                for inherited in (listener, asked, *connections):
                    inherited.close()
                for ended in programs:
                    os.close(ended)
                _become(marshal.loads(text), files)
                return


def _import_what_launchers_do() -> None:
    """Import it, and fill the caches that every process of mothtrap fills."""
    from mothtrap.core.config import Config
    from mothtrap.core.fact import fact_types
    from mothtrap.core.jsonable import decoder
    from mothtrap.core.own_version import own_version
    from mothtrap.monitor.catalogue import load_rules

    for module in OF_LAUNCHERS:
        importlib.import_module(module)
    own_version()
    load_rules(Config(), checks=True)
    for kind in fact_types().values():
        decoder(kind)


def _look_at_modules() -> None:
    """Look at every module that is there: a forked process looks at those that it adds only."""
    from mothtrap.session.surroundings import python_facts
    from mothtrap.tracing.source.mentions import only_call

    only_call("")
    python_facts()


def _import_what_scripts_do() -> None:
    for module in IMPORTED:
        importlib.import_module(module)
    for module in OF_BOOSTING:
        with suppress(ModuleNotFoundError):
            importlib.import_module(module)
    del sys.modules["torch.distributed.run"]  # to be run as a script, from the start
    _leave_libraries()


def _leave_libraries() -> None:
    """Let programs end without freeing torch's operations one by one, which takes half a second."""
    for library in [x for x in gc.get_objects() if type(x) is weakref.finalize]:
        taken = library.peek()
        if taken is not None and getattr(taken[1], "__name__", "") == "_del_library":
            library.atexit = False


def _report_end(pid: int, asked: socket.socket) -> None:
    _, status = os.waitpid(pid, 0)
    with asked, suppress(OSError):  # the requester may have been killed
        asked.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(program: dict[str, Any], files: list[int]) -> None:
    os.setsid()  # as a signal to its group must not reach other programs
    becoming.take_files(dict(zip(program.pop("files"), files, strict=True)))
    becoming.become(**program)


if __name__ == "__main__":
    serve(sys.argv[1])
