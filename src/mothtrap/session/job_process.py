"""Run the command of a job as a child process that behaves as if it were started directly.

The command inherits the descriptors, the signal mask and the ignored signals of mothtrap. It
receives each signal once. A sender that signals the whole process group, like a terminal, reaches
the command directly. This process forwards all other signals, and lives until the command ends.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mothtrap.capture.containment import say_on_stderr

_HERE = Path(__file__).parent

_OWN = frozenset(
    getattr(signal, name)
    for name in (
        *("SIGKILL", "SIGSTOP"),  # cannot be caught
        "SIGCHLD",  # about our own children
        *("SIGPIPE", "SIGXFSZ"),  # a failed write; Python ignores it
        # a handler would return to the faulting instruction
        *("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"),
    )
)
PASSED_ON = tuple(sorted(signal.valid_signals() - _OWN))
"""Signals to this process that are meant for the job."""

STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
"""Signals with which a terminal stops a job. SIGSTOP is not included: a sender that stops only the
command also continues only the command.
"""

NAMED_PROCESS = ("LISTEN_PID", "WATCHDOG_PID", "SYSTEMD_EXEC_PID")
"""Variables in which systemd stores the id of the process that it started."""

ANSWER_S = 1.0
"""Maximum wait for the signal witness, which may be stopped; chosen by hand."""


def inherited_descriptors() -> tuple[int, ...]:
    """Return the descriptors from 3 up that this process inherited.

    Python marks its own descriptors as not inheritable, so only these can be inherited. Call this
    early, before libraries open inheritable descriptors.
    """
    try:
        listed = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return ()
    found = []
    for descriptor in listed:
        with suppress(OSError):  # the descriptor of the directory listing is closed
            if descriptor > 2 and os.get_inheritable(descriptor):
                found.append(descriptor)
    return tuple(found)


def run_command(
    command: Sequence[str],
    env: Mapping[str, str],
    descriptors: Sequence[int] = (),
    started: list[int] | None = None,
    streams: Mapping[int, int] | None = None,
    on_start: Callable[[], None] = lambda: None,
) -> int:
    """Run a command until it ends; call it on the main thread.

    Args:
        command: program and arguments.
        env: its environment.
        descriptors: inherited descriptors from 3 up; they are closed here once the command has
            started, so that the other end of a pipe notices when the command closes its end.
        started: receives its process id.
        streams: descriptors for its standard output and error, by 1 and 2; by default the
            descriptors of this process.
        on_start: called once it has started, or could not be started.

    Returns:
        Its exit code, negative for a signal; 127 if it cannot be started.
    """
    with _CaughtSignals() as signals, _Witness() as witness:
        early = signals.caught()
        try:
            child = subprocess.Popen(
                _as_we_were_started(command, env, signals.children_ignored),
                env=env,
                pass_fds=descriptors,
                stdout=(streams or {}).get(1),
                stderr=(streams or {}).get(2),
            )
        except OSError as err:
            on_start()
            say_on_stderr(f"error: cannot start {command[0]!r}: {err.strerror}; is it installed?")
            return 127
        on_start()
        if started is not None:
            started.append(child.pid)
        for descriptor in descriptors:
            with suppress(OSError):
                os.close(descriptor)
        for number in early:
            _send(child.pid, number)
        signals.catch_all()
        child.returncode = _follow(child.pid, signals, witness)
        return child.returncode


def _as_we_were_started(
    command: Sequence[str], env: Mapping[str, str], children_ignored: bool
) -> list[str]:
    """Return the program to start so that the command gets the environment of mothtrap."""
    own = str(os.getpid())
    named = [name for name in NAMED_PROCESS if env.get(name) == own]
    if not named and not children_ignored:
        return list(command)
    starter = [sys.executable, "-I", "-S", str(_HERE / "start_in_place.py")]
    return [*starter, str(int(children_ignored)), ",".join(named), *command]


def _follow(pid: int, signals: _CaughtSignals, witness: _Witness) -> int:
    """Forward signals to the command, and stop together with it; return its exit code."""
    while True:
        changed, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if changed and os.WIFSTOPPED(status):
            if os.WSTOPSIG(status) in STOPS:
                os.kill(os.getpid(), signal.SIGSTOP)  # so that a shell takes back the terminal
        elif changed:
            return os.waitstatus_to_exitcode(status)
        caught = signals.wait()
        for place, number in enumerate(caught):
            void = number in STOPS and signal.SIGCONT in caught[place:]  # as reported by the kernel
            if number != signal.SIGCHLD and not void and not witness.has_seen(number):
                _send(pid, number)


def _send(pid: int, number: int) -> None:
    with suppress(OSError):  # it has ended, or now belongs to another user
        os.kill(pid, number)


class _CaughtSignals:
    """Queue of the signals sent to this process while its command runs.

    Ignored and blocked signals are caught only after the command has started, because the command
    inherits them. A signal that is caught is not inherited.

    Attributes:
        children_ignored: SIGCHLD was ignored. It cannot stay ignored, because the exit code of
            the child is needed.
    """

    def __enter__(self) -> _CaughtSignals:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        self._before: dict[int, Any] = {}
        self.children_ignored = signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
        self._catch(n for n in PASSED_ON if signal.getsignal(n) != signal.SIG_IGN)
        self._catch([signal.SIGCHLD])
        return self

    def __exit__(self, *_: object) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def catch_all(self) -> None:
        """Catch the signals that were ignored or blocked, too."""
        self._catch(number for number in PASSED_ON if number not in self._before)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    def caught(self) -> bytes:
        """Return the numbers of the signals received since the last call."""
        try:
            return os.read(self._reader, 512)
        except BlockingIOError:
            return b""

    def wait(self) -> bytes:
        """Wait for a signal, then return `caught()`."""
        _is_readable(self._reader, None)
        return self.caught()

    def _catch(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            handler = signal.signal(number, lambda *_: None)  # the wakeup descriptor receives it
            # None: a handler of a C library, which Python cannot set again.
            self._before[number] = signal.SIG_DFL if handler is None else handler


class _Witness:
    """Record of the signals sent to the whole process group; see `signal_witness`.

    If the witness cannot be started or does not answer, the command may get a signal twice, but it
    never misses one.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Witness:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def has_seen(self, number: int) -> bool:
        """Return whether a signal that reached this process was sent to the whole group."""
        answers = self._process.stdout if self._process is not None else None
        questions = self._process.stdin if self._process is not None else None
        if answers is None or questions is None:
            return False
        with suppress(OSError):  # the witness was killed
            questions.write(bytes([number]))
            if _is_readable(answers.fileno(), ANSWER_S):
                return answers.read(1) == b"\1"
        self._end()  # a late answer would be mistaken for the next answer
        self._start()
        return False

    def _start(self) -> None:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_HERE / "signal_witness.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
            )
        except OSError:
            self._process = None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with process:  # closes its pipes and waits until it ends
                process.kill()


def _is_readable(descriptor: int, wait_s: float | None) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if wait_s is None else wait_s * 1000))


def end_like(code: int) -> int:
    """End this process as a child ended: by the same signal, without a second core file.

    Args:
        code: code of the child, negative for a signal.

    Returns:
        The exit code, if the child got no signal, or a signal that does not end this process.
    """
    if code >= 0:
        return code
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
    os.kill(os.getpid(), -code)
    return 128 - code
