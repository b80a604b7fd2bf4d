"""Repairs by an agent that may read only mothtrap's answers, and edit the script.

`prepare` copies 24 fault programs without their healthy branch to FOLDER/p01 ... p24, in random
order, and records a run of each. The names are in FOLDER.key.json, which the agent must not read.
The agent asks with `ask`, which goes through the MCP server and counts tokens, edits
`FOLDER/pNN/train.py`, and may record one more run with `again`. `score` runs the edited scripts and
compares them with the twins.

The comparison, an agent without mothtrap, gets the same programs with `prepare --bare`. It reads
and edits `train.py`, runs it with `again`, at most twice, and reads its output, which counts as
tokens.

Run: python bench/agents.py prepare FOLDER [--only NAME,...] [--bare]
     python bench/agents.py ask FOLDER/pNN QUESTION [KEY=VALUE ...]
     python bench/agents.py again FOLDER/pNN
     python bench/agents.py score FOLDER [--only pNN,...] [--seeds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
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
RUN = "run"
"""Entry of the log for a run; the others are questions."""
ORDER = 43
"""Seed of the order of the programs; any."""


@dataclass(frozen=True, kw_only=True)
class Used:
    """Number of runs and tokens that an agent used for one program."""

    runs: int
    tokens: int

    @property
    def within(self) -> bool:
        """Return whether both are within the limits."""
        return self.runs <= MOST_RUNS and self.tokens <= MOST_TOKENS


def prepare(folder: Path, only: Sequence[str], *, bare: bool) -> None:
    """Write the copies, and record a run of each unless the agent works without mothtrap."""
    chosen = list(cases(only))[:MOST_FAULTS]
    random.Random(ORDER).shuffle(chosen)
    names = {f"p{number:02}": case.name for number, case in enumerate(chosen, 1)}
    folder.mkdir(parents=True)
    key_of(folder).write_text(json.dumps(names, indent=1), encoding="utf-8")
    for name, case in zip(names, chosen, strict=True):
        place = written(case.script, folder / name).parent
        if not bare:
            (place / "runs").mkdir()
            _record(place)
        print(name, flush=True)


def key_of(folder: Path) -> Path:
    """Return the file that has the fault of each program."""
    return folder.with_name(f"{folder.name}.key.json")


def again(place: Path) -> None:
    """Run the edited script; record the run unless the agent works without mothtrap.

    Raises:
        SystemExit: the agent has no run left.
    """
    if used(place).runs >= MOST_RUNS:
        raise SystemExit(f"no run is left: {MOST_RUNS} were made")
    if (place / "runs").is_dir():
        print("the run ends with exit code", _record(place))
        return
    done = python(["train.py"], place)
    said = done.stdout + done.stderr
    _note(place, RUN, said)
    print(said, end="")


def _record(place: Path) -> int:
    name = f"run{used(place).runs + 1}"
    words = ["-m", "mothtrap", "run", "--runs-dir", "runs", "--name", name, "train.py"]
    done = subprocess.run(
        [PYTHON, *words], cwd=place, capture_output=True, check=False, timeout=600
    )
    _note(place, RUN, "")
    return done.returncode


def _note(place: Path, question: str, answer: str) -> None:
    with (place / LOG).open("a", encoding="utf-8") as log:
        log.write(json.dumps({"question": question, "tokens": len(answer.encode()) // 4}) + "\n")


def used(place: Path) -> Used:
    """Return the runs and tokens so far."""
    log = place / LOG
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    calls = [json.loads(line) for line in lines]
    return Used(
        runs=sum(call["question"] == RUN for call in calls),
        tokens=sum(call["tokens"] for call in calls),
    )


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
    _note(place, question, answer)
    print(answer)


def judge(folder: Path, only: Sequence[str], seeds: int) -> None:
    """Print one row per edited script, and how many are repaired within the limits."""
    repaired = total = 0
    known = {case.name: case for case in cases(())}
    names = json.loads(key_of(folder).read_text(encoding="utf-8"))
    for name in only or sorted(names):
        place, case = folder / name, known[names[name]]
        original = written(case.script, folder.with_name(f"{folder.name}.faulty") / name)
        result = Repaired(
            name=case.name,
            patched=True,
            score=score(python(["train.py"], place).stdout),
            faulty=score(python([original.name], original.parent).stdout),
            healthy=tuple(twin_scores(case, seeds)),
        )
        spent = used(place)
        total += 1
        repaired += result.well and spent.within
        mean = f"{statistics.fmean(result.healthy):.4g}" if result.healthy else "-"
        print(
            f"{name} {case.name}: {'repaired' if result.well else 'not repaired'}; score "
            f"{result.faulty} -> {result.score}, healthy {mean}; {spent.runs} runs, "
            f"{spent.tokens} tokens{'' if spent.within else ' (over the limit)'}",
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
    only = [name for name in args.only.split(",") if name]
    if args.command == "prepare":
        prepare(folder, only, bare=args.bare)
    elif args.command == "ask":
        ask(folder, args.words[0], args.words[1:])
    elif args.command == "again":
        again(folder)
    else:
        judge(folder, only, args.seeds)


if __name__ == "__main__":
    main()
