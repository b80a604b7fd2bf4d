"""Numbers that a script logs to a tracking server are also in the run; the server gets them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.running import ITSELF, environment, observed, run

pytest.importorskip("mlflow.server")

import mothtrap

PROGRAM = Path(__file__).parent / "programs" / "on_mlflow.py"
UP_S = 120.0
"""Far longer than the server needs to start."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Run a server with its own store; yield the address."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    words = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    words += ["--backend-store-uri", f"sqlite:///{tmp_path}/runs.db"]
    words += ["--artifacts-destination", str(tmp_path / "artifacts")]
    with (tmp_path / "server.log").open("w") as log:
        served = subprocess.Popen(
            [*ITSELF, "-m", "mlflow", "server", *words],
            env=environment(MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false"),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(address, served)
        yield address
    finally:
        os.killpg(served.pid, signal.SIGKILL)
        served.wait()


def wait_for(address: str, served: subprocess.Popen[bytes]) -> None:
    until_s = time.monotonic() + UP_S
    while True:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
            return
        except OSError:
            assert served.poll() is None, "the server has ended"
            assert time.monotonic() < until_s, "the server does not answer"
            time.sleep(0.1)


@pytest.mark.smoke
def test_server_and_run_have_the_same_numbers(server: str, tmp_path: Path) -> None:
    target = [*ITSELF, PROGRAM, server]
    plain = run(target, cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr
    words = observed(["--", *target], runs_dir=tmp_path, name="seen", python=ITSELF)
    seen = run(words, cwd=tmp_path)
    assert seen.returncode == 0, seen.stderr
    told = json.loads(seen.stdout.splitlines()[-1])
    assert told == json.loads(plain.stdout.splitlines()[-1])
    series = {s.name: s for s in mothtrap.open_run(tmp_path / "seen").scalars()}
    for name, history in told["history"].items():
        assert len(history) == 20
        assert list(series[name].steps_S) == [step for step, _ in history]
        assert list(series[name].values_S) == pytest.approx([value for _, value in history])
