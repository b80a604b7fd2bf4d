"""`mothtrap run --keep-output` keeps terminal or pipe output; the script sees no change."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from pathlib import Path

from tests.harness.running import MOTHTRAP, environment, ready

from mothtrap.store.output_log import kept_output

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
SAYS = f"""import os, sys
print('out', sys.stdout.isatty(), sys.stderr.isatty())
sys.stdout.flush()
if sys.stdout.isatty():
    print('size', *os.get_terminal_size(1))
print('token {TOKEN}')
print('err', file=sys.stderr)
sys.stdout.flush()
os.system('echo child')
print('no end', end='')
"""
COLUMNS, LINES = 91, 23


def kept(folder: Path) -> str:
    """Return the output that the run `x` has kept."""
    files = kept_output(folder / "runs" / "x" / "1")
    return b"".join(path.read_bytes() for _, path in files).decode()


def command(
    folder: Path, text: str, *, name: str = "x", option: str = "--keep-output"
) -> list[str]:
    ready()
    (folder / "says.py").write_text(text)
    return [*MOTHTRAP, "run", "--name", name, option, "says.py"]


def on_terminal(folder: Path, words: list[str]) -> str:
    """Run a command on a pseudo-terminal; return what it shows."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    child = subprocess.Popen(
        words, cwd=folder, env=environment(), stdin=inner, stdout=inner, stderr=inner
    )
    os.close(inner)
    shown = b""
    try:
        while data := os.read(outer, 65536):
            shown += data
    except OSError:  # the terminal is closed
        pass
    os.close(outer)
    assert child.wait(120) == 0
    return shown.decode()


def test_a_terminal_stays_one_and_its_output_is_kept_without_secrets(tmp_path: Path) -> None:
    shown = on_terminal(tmp_path, command(tmp_path, SAYS))
    plain = on_terminal(tmp_path, command(tmp_path, SAYS, name="plain", option="--no-rules"))
    said = shown.partition("no end")[0]
    assert said == plain.partition("no end")[0]
    lines = {"out True True", f"size {COLUMNS} {LINES}", f"token {TOKEN}", "err", "child"}
    assert set(said.splitlines()) == lines
    found = kept(tmp_path)
    assert TOKEN not in found
    assert len(found.splitlines()) == len(lines) + 1
    assert found.endswith("\nno end")


def test_pipes_stay_pipes_and_apart(tmp_path: Path) -> None:
    words = command(tmp_path, SAYS)
    done = subprocess.run(
        words, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.stdout == f"out False False\ntoken {TOKEN}\nchild\nno end"
    assert done.stderr.startswith("err\n")
    assert sorted(kept(tmp_path).replace("no end", "").splitlines())[:2] == ["child", "err"]


def test_a_reader_that_goes_ends_the_script_as_without_mothtrap(tmp_path: Path) -> None:
    endless = "import sys\nwhile True:\n    print('line')\n"
    words = " ".join(command(tmp_path, endless))
    done = subprocess.run(
        ["bash", "-c", f"{words} | head -2; echo ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines()[:2] == ["line", "line"]
    assert "BrokenPipeError" in done.stderr
    assert done.stdout.splitlines()[2] != "0"


def test_a_process_that_outlives_the_job_is_not_waited_for(tmp_path: Path) -> None:
    text = "import subprocess\nprint(subprocess.Popen(['sleep', '100']).pid)\nprint('done')\n"
    words = command(tmp_path, text)
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.wait(60) == 0
    pid, done = kept(tmp_path).splitlines()
    os.kill(int(pid), signal.SIGTERM)  # it is still running
    assert done == "done"


def test_a_process_that_writes_for_ever_is_not_waited_for(tmp_path: Path) -> None:
    words = command(tmp_path, "import subprocess\nsubprocess.Popen('yes')\n")
    quiet = subprocess.DEVNULL
    assert (
        subprocess.run(
            words, cwd=tmp_path, env=environment(), stdout=quiet, stderr=quiet, timeout=60
        ).returncode
        == 0
    )
    assert kept(tmp_path).startswith("y\n")
