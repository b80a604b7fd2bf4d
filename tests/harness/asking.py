"""A replacement for Python that lets a preloaded process fork and run a program.

`python -IS asking.py ADDRESS COMMAND ARGS...`, where COMMAND becomes the program's
`sys.executable`. Anything but a plain script, module or child of multiprocessing is run by Python
itself. It is started for every program, so it imports only modules that are written in C:
`os`, `signal` and `socket` take longer to import than Python takes to start.
"""

import _signal
import _socket
import marshal
import posix
import sys

OF_LAUNCHERS = ".launchers"
"""Ends the address of the process that forks for `mothtrap run`, and has not imported torch."""
SPAWNED = "from multiprocessing.spawn import spawn_main"
HONORED = {b"PYTHONPATH", b"PYTHON_EXEC"}  # variables; the interpreter has read the others
FORWARDED = [getattr(_signal, f"SIG{name}") for name in ("INT", "TERM", "HUP", "USR1", "USR2")]


def is_plain(arguments: list[str], environment: dict[bytes, bytes]) -> bool:
    """Return whether a forked process does the same as an interpreter with these arguments."""
    if any(name.startswith(b"PYTHON") and name not in HONORED for name in environment):
        return False
    words = _without_options(arguments)
    if words[:1] == ["-c"]:
        return words[1].startswith(SPAWNED)
    return bool(words) and (words[0] == "-m" or not words[0].startswith("-"))


def _without_options(arguments: list[str]) -> list[str]:
    words = arguments[2:] if arguments[:1] == ["-W"] else arguments
    return words[1:] if words[:1] == ["-u"] else words


def ask(address: str, executable: str, arguments: list[str]) -> int:
    """Request a run of a program with our files, folder and environment; return its exit code."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    files = _inherited()
    connection.connect(address)
    program = {
        "arguments": arguments,
        "environment": posix.environ,
        "folder": posix.getcwd(),
        "executable": executable,
        "files": files,
    }
    numbers = b"".join(file.to_bytes(4, sys.byteorder) for file in files)
    ancillary = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)]
    connection.sendmsg([marshal.dumps(program)], ancillary)
    pid = int(_line(connection))
    for signal in FORWARDED:
        _signal.signal(signal, lambda number, _: _forward(pid, number))
    return int(_line(connection) or -_signal.SIGKILL)


def _line(connection: _socket.socket) -> bytes:
    read = b""
    while (byte := connection.recv(1)) not in (b"", b"\n"):
        read += byte
    return read


def _forward(pid: int, number: int) -> None:
    try:
        posix.kill(pid, number)
    except ProcessLookupError:
        return


def _inherited() -> list[int]:
    found = [0, 1, 2]
    for name in posix.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and posix.get_inheritable(int(name)):
                found.append(int(name))
        except OSError:  # that of the folder itself
            continue
    return found


def _exists(path: str) -> bool:
    try:
        posix.stat(path)
    except OSError:
        return False
    return True


def main(address: str, executable: str, arguments: list[str]) -> None:
    """Run a program, and exit with its exit code."""
    if _without_options(arguments)[:3] == ["-m", "mothtrap", "run"]:
        address += OF_LAUNCHERS
    if not (is_plain(arguments, posix.environ) and _exists(address)):
        posix.execv(sys.executable, [sys.executable, *arguments])
    code = ask(address, executable, arguments)
    if code < 0:
        if -code not in (_signal.SIGKILL, _signal.SIGSTOP):
            _signal.signal(-code, _signal.SIG_DFL)
        posix.kill(posix.getpid(), -code)
    posix._exit(code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
