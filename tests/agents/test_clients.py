"""Clients of the official SDK, each with its own server process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.cli.stored_run import store_run
from tests.harness.running import ITSELF, PYTHON, finish, observed, run, script_of, start
from tests.report.faulty_run import exploding

from mothtrap.core.errors import RunNotFoundError
from mothtrap.core.runs import RunInfo
from mothtrap.reader.run import open_run
from mothtrap.report.answers.answer import FROM_RUN, MAX_TOKENS
from mothtrap.store import layout

ENDLESS = Path(__file__).parents[1] / "faults" / "endless_training.py"
STEPS = 100
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("verdict", {}),
    ("finding", {"which": "GRD101"}),
    ("evidence", {"which": "GRD101"}),
    ("source", {"place": "train.py:1"}),
    ("fix", {}),
    ("record", {}),
    ("coverage", {}),
    ("compare", {"first": "r", "second": "r"}),
)
"""Every tool that reads one run, with its arguments."""


@asynccontextmanager
async def client(runs: Path, *options: str) -> AsyncIterator[ClientSession]:
    """Start a server for a folder of runs, and yield a client of it."""
    words = ["-m", "mothtrap", "mcp", str(runs), *options]
    server = StdioServerParameters(command=sys.executable, args=words, cwd=runs.parent)
    async with stdio_client(server) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        yield session


async def asked(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer of a tool, after the checks that all answers must pass."""
    called = await session.call_tool(tool, arguments)
    (block,) = called.content
    answer = json.loads(block.text)
    assert len(block.text.encode()) <= 4 * MAX_TOKENS
    assert (answer["schema_version"], answer["note"]) == (1, FROM_RUN)
    assert "itself failed" not in block.text
    assert ("error" in answer) == ("next_step" in answer) or tool == "runs"
    return answer


async def every_answer(runs: Path) -> dict[str, dict[str, Any]]:
    async with client(runs) as session:
        found = {"runs": await asked(session, "runs")}
        for tool, arguments in ASKED:
            found[tool] = await asked(session, tool, **arguments)
        return found


def test_without_a_run_every_tool_says_how_to_make_one(tmp_path: Path) -> None:
    found = asyncio.run(every_answer(tmp_path / "runs"))
    assert found.pop("runs")["runs"] == []
    for answer in found.values():
        assert "contains no runs" in answer["error"]
        assert "mothtrap run train.py" in answer["next_step"]


@pytest.mark.full
def test_a_run_with_only_its_manifest_is_said_to_have_no_steps(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    manifest = RunInfo(
        id="r",
        attempt=1,
        command=("python", "train.py"),
        cwd=str(tmp_path),
        created_s=time.time() - 3600,
        pid=ended.pid,
        host=socket.gethostname(),
        python="3.11",
        mothtrap="0",
    )
    layout.create_run(tmp_path / "runs" / "r", manifest)
    found = asyncio.run(every_answer(tmp_path / "runs"))
    assert found["runs"]["runs"][0]["steps"] == 0
    assert "stopped without closing its run" in found["verdict"]["verdict"]
    assert "nothing was found in the run" in found["finding"]["error"]
    assert found["fix"]["patches"] == []


@pytest.mark.full
def test_two_clients_at_once_get_the_same_answers(tmp_path: Path) -> None:
    store_run(tmp_path / "runs" / "r", findings=(exploding(),))

    async def both() -> tuple[Any, ...]:
        return await asyncio.gather(*(every_answer(tmp_path / "runs") for _ in range(2)))

    first, second = asyncio.run(both())
    assert first == second
    assert first["verdict"]["findings"][0]["code"] == "GRD101"


@pytest.mark.full
def test_clients_read_a_job_before_and_after_kill_9(tmp_path: Path) -> None:
    """Two clients read while the job writes; then launcher and job are killed."""
    runs = tmp_path / "runs"
    target = ["--", *PYTHON, str(ENDLESS)]
    process = start(observed(target, runs_dir=runs, name="r", python=ITSELF), cwd=tmp_path)
    while stored_steps(runs / "r") < STEPS:
        assert process.poll() is None
        time.sleep(0.1)

    async def both() -> tuple[Any, ...]:
        return await asyncio.gather(*(every_answer(runs) for _ in range(2)))

    try:
        for found in asyncio.run(both()):
            assert found["runs"]["runs"][0]["state"] == "running"
            assert "still running" in found["verdict"]["verdict"]
    finally:
        for victim in (process.pid, script_of(open_run(runs / "r"))):
            os.kill(victim, signal.SIGKILL)
        finish(process)
    found = asyncio.run(every_answer(runs))
    assert found["runs"]["runs"][0]["state"] == "crashed"
    assert "stopped without closing its run" in found["verdict"]["verdict"]
    assert found["record"]["metrics"]["loss"] > 0


def stored_steps(path: Path) -> int:
    try:
        return open_run(path).steps
    except RunNotFoundError:
        return 0


TALKATIVE = """
import sys
import torch
print("a line of the script", flush=True)
print(repr(sys.stdin.read()), flush=True)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(20):
    x = torch.full((8, 4), float("nan") if step == 12 else 1.0)
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, flush=True)
"""


@pytest.mark.full
def test_a_replayed_script_cannot_speak_in_the_conversation(tmp_path: Path) -> None:
    """The server communicates over stdin and stdout, to which the script must not write."""
    runs = tmp_path / "runs"
    (tmp_path / "train.py").write_text(TALKATIVE, encoding="utf-8")
    words = observed(["--", *PYTHON, "train.py"], runs_dir=runs, name="r")
    done = run(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    async def conversation() -> tuple[dict[str, Any], dict[str, Any]]:
        async with client(runs, "--allow-replay") as session:
            replayed = await asked(session, "replay", run="r")
            return replayed, await asked(session, "verdict", run="r")

    replayed, verdict = asyncio.run(conversation())
    assert "error" not in replayed
    assert verdict["findings"]
