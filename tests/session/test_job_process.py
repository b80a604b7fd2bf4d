"""A command under `mothtrap run` gets the same descriptors and signals as without."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.harness.running import ITSELF, TIMEOUT_S, environment

pexpect = pytest.importorskip("pexpect")

WATCHED = (*ITSELF, "-m", "mothtrap", "run", "--quiet")
BOTH = pytest.mark.parametrize("program", [ITSELF, WATCHED], ids=["plain", "watched"])
"""Without and with mothtrap: the outcome must be the same."""

PASSED_ON = (
    *("SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM"),
    *("SIGTSTP", "SIGCONT", "SIGXCPU", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGRTMIN"),
)
HANDLES = f"""
import os, signal, sys
for name in {PASSED_ON}:  # a print may be interrupted by a handler, and not print there
    signal.signal(getattr(signal, name), lambda number, _: os.write(1, b"%d\\n" % number))
print("ready", flush=True)
print(sys.stdin.readline(), end="", flush=True)
sys.exit(6)
"""


@contextmanager
def started(
    command: Sequence[str | Path], folder: Path, **options: object
) -> Iterator[subprocess.Popen[str]]:
    """Start a command as the leader of a process group; end the group whatever happens."""
    job = subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        process_group=0,
        **options,  # type: ignore[call-overload]
    )
    patience = threading.Timer(TIMEOUT_S, end_group, [job.pid])
    patience.start()
    try:
        yield job
    finally:
        patience.cancel()
        end_group(job.pid)
        job.communicate()


def end_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def script(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return path


def line_of(job: subprocess.Popen[str]) -> str:
    assert job.stdout is not None
    return job.stdout.readline().strip()


def is_idle(job: subprocess.Popen[str]) -> bool:
    """Return whether a process has received every signal that was sent to it."""
    status = Path(f"/proc/{job.pid}/status").read_text()
    pending = [line.split()[1] for line in status.splitlines() if line[:6] in ("SigPnd", "ShdPnd")]
    return not any(int(mask, 16) for mask in pending)


def told(job: subprocess.Popen[str], text: str) -> tuple[str, int]:
    """Write the standard input of a job; return the rest of its output and its exit code."""
    output, _ = job.communicate(text, timeout=TIMEOUT_S)
    return output, job.returncode


@BOTH
def test_descriptors_are_those_that_the_job_was_started_with(
    program: Sequence[str], tmp_path: Path
) -> None:
    text = (
        "import os, sys\n"
        "kept = set()\n"
        "for fd in range(3, 200):\n"
        "    try:\n"
        "        os.fstat(fd)\n"
        "    except OSError:\n"
        "        continue\n"
        "    kept.add(fd)\n"
        "print(sorted(kept - {int(fd) for fd in sys.argv[1:]}))\n"
        "os.write(int(sys.argv[2]), os.read(int(sys.argv[1]), 9).upper())\n"
    )
    (reader, theirs), (answers, writer) = os.pipe(), os.pipe()
    os.write(theirs, b"read me")
    command = [*program, script(tmp_path, text), str(reader), str(writer)]
    with started(command, tmp_path, pass_fds=(reader, writer)) as job:
        assert told(job, "") == ("[]\n", 0)
    assert os.read(answers, 9) == b"READ ME"
    for descriptor in (reader, theirs, answers, writer):
        os.close(descriptor)


@BOTH
def test_a_pipe_that_the_script_closes_is_at_its_end(
    program: Sequence[str], tmp_path: Path
) -> None:
    text = "import os, sys\nos.close(int(sys.argv[1]))\nprint(input())\n"
    reader, writer = os.pipe()
    with started(
        [*program, script(tmp_path, text), str(writer)], tmp_path, pass_fds=(writer,)
    ) as job:
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            assert pipe.read() == b""  # the script still runs: it waits for a line
        assert told(job, "and on\n") == ("and on\n", 0)


@BOTH
def test_each_signal_reaches_the_script_once(program: Sequence[str], tmp_path: Path) -> None:
    with started([*program, script(tmp_path, HANDLES)], tmp_path) as job:
        assert line_of(job) == "ready"
        for number in [getattr(signal, name) for name in PASSED_ON]:
            os.killpg(job.pid, number)
            assert line_of(job) == str(int(number)), "sent to the group"
            while not is_idle(job):  # the kernel merges two pending signals into one
                time.sleep(0.001)
            os.kill(job.pid, number)
            assert line_of(job) == str(int(number)), "sent to the process"
        assert told(job, "end\n") == ("end\n", 6)  # and nothing arrived twice


INHERITED = """
import os, signal
print(*sorted(n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN))
print(*sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
signal.signal(signal.SIGHUP, lambda *_: os.write(1, b"hung up\\n"))
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"used\\n"))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
print("ready", flush=True)
raise SystemExit(len(input()))
"""
BECOMES = """
import os, signal, sys
for name in ("SIGHUP", "SIGINT", "SIGCHLD"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD])
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_ignored_and_blocked_signals_are_inherited(tmp_path: Path) -> None:
    found = []
    for program in (ITSELF, WATCHED):
        command = [*ITSELF, "-c", BECOMES, *program[1:], script(tmp_path, INHERITED)]
        with started(command, tmp_path) as job:
            found.append([line_of(job), line_of(job), line_of(job)])
            os.kill(job.pid, signal.SIGHUP)  # ignored, and blocked, when the job was started
            assert line_of(job) == "hung up"
            os.kill(job.pid, signal.SIGUSR1)
            assert line_of(job) == "used"
            assert told(job, "seven  \n") == ("", 7)
    assert found[0] == found[1]


@BOTH
def test_an_activated_service_is_the_process_that_is_named(
    program: Sequence[str], tmp_path: Path
) -> None:
    text = "import os\nprint(os.environ['LISTEN_PID'] == str(os.getpid()))\n"
    command = [*ITSELF, "-c", BECOMES, *program[1:], script(tmp_path, text)]
    with started(command, tmp_path) as job:
        assert told(job, "") == ("True\n", 0)


@BOTH
@pytest.mark.parametrize(
    "name",
    [
        *("SIGKILL", "SIGTERM", "SIGSEGV"),
        *(pytest.param(name, marks=pytest.mark.full) for name in ("SIGQUIT", "SIGALRM")),
    ],
)
def test_a_job_that_a_signal_ends_is_ended_by_it(
    program: Sequence[str], name: str, tmp_path: Path
) -> None:
    text = f"import os, signal\nos.kill(os.getpid(), signal.{name})\n"
    with started([*program, script(tmp_path, text)], tmp_path) as job:
        assert told(job, "") == ("", -getattr(signal, name))


@BOTH
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_job_stops_and_goes_on_as_it_is_asked(
    program: Sequence[str], send: Callable[[int, int], None], tmp_path: Path
) -> None:
    text = (
        "import os, signal\n"
        "signal.signal(signal.SIGCONT, lambda *_: os.write(1, b'continued\\n'))\n"
        "print('ready', flush=True)\nprint(input())\n"
    )
    with started([*program, script(tmp_path, text)], tmp_path) as job:
        assert line_of(job) == "ready"
        send(job.pid, signal.SIGTSTP)
        assert os.WIFSTOPPED(os.waitpid(job.pid, os.WUNTRACED)[1])
        send(job.pid, signal.SIGCONT)
        assert line_of(job) == "continued"
        assert told(job, "done\n") == ("done\n", 0)


@BOTH
def test_a_terminal_stops_continues_and_interrupts_the_job(
    program: Sequence[str], tmp_path: Path
) -> None:
    text = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, lambda *_: os.write(1, b'interrupted\\n'))\n"
        "signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b'resized\\n'))\n"
        "print('is', 'ready', flush=True)\n"
        "for line in sys.stdin:\n"
        "    print('read', line.strip(), sys.stdin.isatty(), flush=True)\n"
        "sys.exit(7)\n"
    )
    shell = pexpect.spawn(
        "sh", ["-i"], cwd=str(tmp_path), env=environment(PS1="prompt% "), timeout=TIMEOUT_S
    )
    shell.expect_exact("prompt% ")
    shell.sendline(" ".join(map(str, [*program, script(tmp_path, text)])))
    shell.expect_exact("is ready")
    shell.sendcontrol("c")
    shell.expect_exact("interrupted")
    shell.setwinsize(30, 90)
    shell.expect_exact("resized")
    shell.sendcontrol("z")
    shell.expect_exact("prompt% ")
    shell.sendline("fg")
    shell.sendline("a line")
    shell.expect_exact("read a line True")
    assert b"interrupted" not in shell.before  # once was enough
    shell.sendcontrol("d")
    shell.expect_exact("prompt% ")
    shell.sendline("echo code $?")
    shell.expect_exact("code 7")
    shell.sendline("exit")
    shell.expect(pexpect.EOF)


def test_a_closed_output_does_not_change_how_the_job_ends(tmp_path: Path) -> None:
    path = script(tmp_path, "import os\nos.kill(os.getpid(), 9)\n")
    for closed in (">&-", "<&- >&- 2>&-"):
        command = f"exec {' '.join(WATCHED)} {path} {closed}"
        assert subprocess.run(["sh", "-c", command], cwd=tmp_path).returncode == -9, closed
