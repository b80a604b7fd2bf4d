"""Replace this process with a command, after a change that only the process itself can make.

`mothtrap run` starts this program instead of the command in two cases:

- SIGCHLD was ignored when mothtrap started. mothtrap itself cannot ignore it, because the kernel
  then discards the exit code of the command.
- A service manager names the process that it started in environment variables. They contain the
  process id of mothtrap, and must contain the process id of the command.

It imports nothing from mothtrap, so that it starts fast.
"""

import os
import signal
import sys


def _become(ignores_children: bool, named: list[str], command: list[str]) -> None:
    """Replace this process with the command.

    Args:
        ignores_children: ignore SIGCHLD.
        named: variables that receive the id of this process.
        command: program and arguments.
    """
    os.environ.update(dict.fromkeys(named, str(os.getpid())))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them
    if ignores_children:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        os.execvp(command[0], command)
    except OSError as err:
        os.write(
            2,
            f"error: cannot start {command[0]!r}: {err.strerror}; is it installed?\n".encode(
                errors="backslashreplace"
            ),
        )
        os._exit(127)


if __name__ == "__main__":
    _become(sys.argv[1] == "1", [name for name in sys.argv[2].split(",") if name], sys.argv[3:])
