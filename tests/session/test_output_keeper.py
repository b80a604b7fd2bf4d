"""The end of a job's output is kept if it goes to a file; otherwise the job is left alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.harness.running import MOTHTRAP, environment, ready

from mothtrap.store.output_log import FILE_BYTES, OutputLog, kept_output

SAYS = """import os, sys
print('out')
sys.stdout.flush()
print('err', file=sys.stderr)
os.system('echo child')
"""


def kept(run: Path) -> bytes:
    return b"".join(path.read_bytes() for _, path in kept_output(run / "1"))


def watched(tmp_path: Path, stdout: int, stderr: int) -> subprocess.CompletedProcess[bytes]:
    ready()
    (tmp_path / "says.py").write_text(SAYS)
    command = [*MOTHTRAP, "run", "--name", "x", "says.py"]
    return subprocess.run(
        command, cwd=tmp_path, env=environment(), stdout=stdout, stderr=stderr, timeout=120
    )


def test_output_that_goes_to_a_file_is_kept_too(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        log.write(b"of a program before\n")
        log.flush()
        watched(tmp_path, log.fileno(), subprocess.STDOUT)
    written = (tmp_path / "log").read_bytes()
    assert written.startswith(b"of a program before\nout\nerr\nchild\n")
    assert kept(tmp_path / "runs" / "x").startswith(b"out\nerr\nchild\n")


def test_two_files_are_both_kept(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        watched(tmp_path, out.fileno(), err.fileno())
    found = kept(tmp_path / "runs" / "x")
    assert b"out\nchild\n" in found
    assert b"err\n" in found


def test_a_pipe_is_handed_to_the_script_as_it_is(tmp_path: Path) -> None:
    done = watched(tmp_path, subprocess.PIPE, subprocess.PIPE)
    assert done.stdout == b"out\nchild\n"
    assert kept(tmp_path / "runs" / "x") == b""


def test_of_long_output_the_end_is_kept(tmp_path: Path) -> None:
    log = OutputLog(tmp_path)
    line = b"x" * 1023 + b"\n"
    for _ in range(3 * FILE_BYTES // 1024):
        log.append(line)
    log.append(b"last\n")
    files = kept_output(tmp_path)
    assert [start for start, _ in files] == [2 * FILE_BYTES, 3 * FILE_BYTES]
    assert files[-1][1].read_bytes() == b"last\n"


def test_what_is_left_out_keeps_its_place(tmp_path: Path) -> None:
    log = OutputLog(tmp_path)
    log.append(b"begin\n")
    log.skip(100)
    log.append(b"end\n")
    assert [start for start, _ in kept_output(tmp_path)] == [0, 106]


def test_a_folder_that_cannot_be_written_raises_for_the_keeper_to_stop(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(2)):
        OutputLog(tmp_path / "gone").append(b"x")
