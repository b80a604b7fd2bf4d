"""A replacement for Python that lets a preloaded process fork and run a program.

`python -IS asking.py ADDRESS COMMAND ARGS...`, where COMMAND becomes the program's
`sys.executable`. Anything but a plain script, module or child of multiprocessing is run by Python
itself. It imports little, because it is started for every program.
"""

import array
import os
import signal
import socket
import sys

SPAWNED = "from multiprocessing.spawn import spawn_main"
HONORED = {"PYTHONPATH", "PYTHON_EXEC"}  # variables; the interpreter has read the others
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


def is_plain(arguments: list[str], environment: dict[str, str]) -> bool:
    """Return whether a forked process does the same as an interpreter with these arguments."""
    if any(name.startswith("PYTHON") and name not in HONORED for name in environment):
        return False
    words = arguments[2:] if arguments[:1] == ["-W"] else arguments
    words = words[1:] if words[:1] == ["-u"] else words
    if words[:1] == ["-c"]:
        return words[1].startswith(SPAWNED)
    return bool(words) and (words[0] == "-m" or not words[0].startswith("-"))


def ask(address: str, executable: str, arguments: list[str]) -> int:
    """Request a run of a program with our files, folder and environment; return its exit code."""
    import json

    connection = socket.socket(socket.AF_UNIX)
    files = _inherited()
    connection.connect(address)
    program = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "executable": executable,
        "files": files,
    }
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
    connection.sendmsg([json.dumps(program).encode()], ancillary)
    answers = connection.makefile()
    pid = int(answers.readline())
    for name in FORWARDED:
        signal.signal(getattr(signal, name), lambda number, _: _forward(pid, number))
    return int(answers.readline() or -signal.SIGKILL)


def _forward(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _inherited() -> list[int]:
    found = [0, 1, 2]
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:  # that of the folder itself
            continue
    return found


def main(address: str, executable: str, arguments: list[str]) -> None:
    """Run a program, and exit with its exit code."""
    if not (is_plain(arguments, dict(os.environ)) and os.path.exists(address)):
        os.execv(sys.executable, [sys.executable, *arguments])
    code = ask(address, executable, arguments)
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
