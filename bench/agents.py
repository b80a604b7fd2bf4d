"""Repairs by an agent that may read only mothtrap's answers, and edit the script.

`prepare` copies fault programs without their healthy branch and records a run of each. The agent
asks with `ask`, which goes through the MCP server and counts tokens, edits `NAME/train.py`, and may
record one more run with `again`. `score` runs the edited scripts and compares them with the twin.
The comparison, an agent without mothtrap, gets the same folders after `prepare --bare`: it may run
`train.py` twice and read what it prints, and nothing else.

Run: python bench/agents.py prepare FOLDER [--only NAME,...] [--bare]
     python bench/agents.py ask FOLDER/NAME QUESTION [KEY=VALUE ...]
     python bench/agents.py again FOLDER/NAME
     python bench/agents.py score FOLDER [--seeds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from bench.repairing import Repaired, cases, python, score, twin_scores
from bench.runs_of_programs import PYTHON
from bench.without_twin import written

MOST_FAULTS = 24
"""Fault programs that are prepared: the first by name of both benches."""
MOST_RUNS = 2
MOST_TOKENS = 4000
LOG = "calls.jsonl"


def prepare(folder: Path, only: Sequence[str], *, bare: bool) -> None:
    """Write the copies, and record a run of each unless the agent works without mothtrap."""
    for case in list(cases(only))[:MOST_FAULTS]:
        copy = written(case.script, folder / case.name)
        if not bare:
            _record(copy.parent, "first")
        print(case.name, flush=True)


def again(place: Path) -> None:
    """Record a run of the edited script."""
    name = f"run{len(list((place / 'runs').iterdir())) + 1}"
    print(name, "ends with exit code", _record(place, name))


def _record(place: Path, name: str) -> int:
    words = ["-m", "mothtrap", "run", "--runs-dir", "runs", "--name", name, "train.py"]
    return subprocess.run(
        [PYTHON, *words], cwd=place, capture_output=True, check=False, timeout=600
    ).returncode


async def asked(place: Path, question: str, arguments: dict[str, str]) -> str:
    """Return the answer of the MCP server of a folder."""
    server = StdioServerParameters(
        command=PYTHON, args=["-m", "mothtrap", "mcp", str(place / "runs")], cwd=place
    )
    async with stdio_client(server) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        result = await session.call_tool(question, arguments)
        return "".join(getattr(part, "text", "") for part in result.content)


def ask(place: Path, question: str, words: Sequence[str]) -> None:
    """Print an answer, and note its tokens."""
    arguments = dict(word.split("=", 1) for word in words)
    answer = asyncio.run(asked(place, question, arguments))
    with (place / LOG).open("a", encoding="utf-8") as log:
        log.write(json.dumps({"question": question, "tokens": len(answer.encode()) // 4}) + "\n")
    print(answer)


def judge(folder: Path, seeds: int) -> None:
    """Print one row per edited script, and how many are repaired within the limits."""
    repaired = total = 0
    known = {case.name: case for case in cases(())}
    for place in sorted(path for path in folder.iterdir() if path.name in known):
        case = known[place.name]
        original = written(case.script, place / "faulty")
        calls = (place / LOG).read_text(encoding="utf-8") if (place / LOG).exists() else ""
        tokens = sum(json.loads(line)["tokens"] for line in calls.splitlines())
        runs = len(list((place / "runs").iterdir())) if (place / "runs").exists() else 0
        result = Repaired(
            name=case.name,
            patched=True,
            score=score(python(["train.py"], place).stdout),
            faulty=score(python([original.name], original.parent).stdout),
            healthy=tuple(twin_scores(case, seeds)),
        )
        within = runs <= MOST_RUNS and tokens <= MOST_TOKENS
        total += 1
        repaired += result.well and within
        mean = f"{statistics.fmean(result.healthy):.4g}" if result.healthy else "-"
        print(
            f"{case.name}: {'repaired' if result.well else 'not repaired'}; score {result.faulty} "
            f"-> {result.score}, healthy {mean}; {runs} runs, {tokens} tokens"
            f"{'' if within else ' (over the limit)'}",
            flush=True,
        )
    print(f"{repaired} of {total} repaired in {MOST_RUNS} runs and {MOST_TOKENS} tokens")


def main() -> None:
    """Run one of the four commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["prepare", "ask", "again", "score"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--only", default="")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    folder = args.folder.absolute()
    if args.command == "prepare":
        prepare(folder, [name for name in args.only.split(",") if name], bare=args.bare)
    elif args.command == "ask":
        ask(folder, args.words[0], args.words[1:])
    elif args.command == "again":
        again(folder)
    else:
        judge(folder, args.seeds)


if __name__ == "__main__":
    main()
