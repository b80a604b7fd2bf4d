"""Runs scripts in processes forked from one that has imported torch and mothtrap.

Importing them takes seconds, most programs of the tests far less. A forked process is a
process of its own, observed like any other; only the start-up hook is not tried (the
harness does that). `python preloaded.py SOCKET` is the one that has imported them,
`python preloaded.py SOCKET script.py ARGS...` stands for the interpreter, and so does
`python preloaded.py SOCKET -m module ARGS...`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

START_TIMEOUT_S = 60.0
IMPORTED = (
    "torch._dynamo",  # which the first optimizer imports
    "mothtrap.adapters.torch.process",
    "mothtrap.cli.run",
    "mothtrap.session.launch",
    "mothtrap.session.verdict",
)


class Preloaded:
    """The process that has imported torch, and the command that stands for Python in it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        address = folder / "preloaded"
        self._process = subprocess.Popen([sys.executable, __file__, address], env=environment)
        self.python = (sys.executable, "-I", "-S", __file__, str(address))
        give_up_s = time.monotonic() + START_TIMEOUT_S
        while not address.exists():
            assert self._process.poll() is None, "the process that imports torch has died"
            assert time.monotonic() < give_up_s, f"no {address} after {START_TIMEOUT_S} s"
            time.sleep(0.02)

    def close(self) -> None:
        """End it; programs that it started go on."""
        self._process.kill()
        self._process.wait()


def serve(address: str) -> None:
    """Fork a process for every connection; returns in that process, ready to be a program."""
    from mothtrap.monitor.catalogue import rule_classes

    for module in IMPORTED:
        importlib.import_module(module)
    rule_classes()
    listener = socket.socket(socket.AF_UNIX)
    gc.freeze()  # what a collection never visits stays shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who keep a program
    listener.bind(address + ".new")
    listener.listen()
    os.rename(address + ".new", address)  # there when it listens
    while True:
        asked, _ = listener.accept()
        if not os.fork():
            break
        asked.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    listener.close()
    text, files, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    program = os.fork()
    if program:
        _, status = os.waitpid(program, 0)
        asked.sendall(str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    asked.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    _become(**json.loads(text))


def _become(arguments: list[str], environment: dict[str, str], folder: str) -> None:
    """Run a script or module as the interpreter would that it was given to."""
    from mothtrap.session import startup

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    watched = "MOTHTRAP_RUN_DIR" in environment or "MOTHTRAP_REPLAY" in environment
    if arguments[0] == "-m":
        sys.argv[:] = arguments[1:]
        sys.path[0] = folder
        if watched:
            startup.attach("torch")
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv[:] = arguments
    sys.path[0] = str(Path(arguments[0]).parent)
    if watched:
        startup.attach("torch")
    runpy.run_path(arguments[0], run_name="__main__")


def ask(address: str, arguments: list[str]) -> int:
    """Have a script run with our files, folder and environment; return its exit code."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    program = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    socket.send_fds(connection, [json.dumps(program).encode()], [0, 1, 2])
    return int(connection.recv(16) or 1)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        code = ask(sys.argv[1], sys.argv[2:])
        if code < 0:
            os.kill(os.getpid(), -code)
        sys.exit(code)
