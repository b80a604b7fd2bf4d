"""The server speaks the protocol over stdio, and offers only the permitted tools."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.cli.stored_run import store_run
from tests.report.faulty_run import exploding

from mothtrap.agents.server import build
from mothtrap.core.extras import install_command

READING = {
    *("runs", "verdict", "finding", "evidence", "source", "record", "coverage", "compare", "fix"),
}


def names(server) -> set[str]:
    return {tool.name for tool in asyncio.run(server.list_tools())}


def test_tools_that_act_exist_only_where_they_are_allowed(tmp_path: Path) -> None:
    assert names(build(tmp_path)) == READING
    assert names(build(tmp_path, replays=True)) == READING | {"replay"}
    control = READING | {"capture", "snapshot", "stop"}
    assert names(build(tmp_path, control=True)) == control


async def conversation(runs: Path) -> list[str]:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "mothtrap", "mcp", str(runs)], cwd=runs.parent
    )
    async with stdio_client(server) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        listed = await session.call_tool("runs", {})
        verdict = await session.call_tool("verdict", {"run": "first"})
        unknown = await session.call_tool("verdict", {"run": "no such run"})
        rule = await session.read_resource("mothtrap://rules/GRD101")
        skill = await session.read_resource("mothtrap://skill")
        texts = [one.content[0].text for one in (listed, verdict, unknown)]
        return [*texts, rule.contents[0].text, skill.contents[0].text]


def test_a_client_reads_a_run_over_stdio(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    store_run(runs / "first", findings=(exploding(),))
    listed, verdict, unknown, rule, skill = asyncio.run(conversation(runs))
    assert json.loads(listed)["runs"][0]["run"] == "first"
    assert json.loads(verdict)["findings"][0]["code"] == "GRD101"
    assert "no run is called" in json.loads(unknown)["error"]
    assert rule.startswith("GRD101 exploding_gradient")
    assert skill.startswith("---\nname: debug-training")


@pytest.mark.parametrize("extra", ["mcp"])
def test_the_extra_is_named_where_it_is_missing(extra: str, tmp_path: Path) -> None:
    import subprocess

    block = "import sys; sys.modules['mcp'] = None; from mothtrap.cli import main; main(['mcp'])"
    done = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert install_command(extra) in done.stderr
