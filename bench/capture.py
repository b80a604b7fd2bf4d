"""Cost of capture: step times with and without it, in pairs.

Plain and watched steps of the same training run take turns, in alternating order. The ratio is
taken inside each pair; the median over the pairs has its 95 % bootstrap interval. Each line is
measured in separate processes: mothtrap, the floors that no tool can go below, and other tools
(peers), each in its own environment (`make peers`).

Run: python bench/capture.py [--model NAME]... [--setting NAME]... [--by NAME]... [--pairs N]
    python bench/capture.py --p99 [--model NAME]...        p99 over 2,000 steps
    python bench/capture.py --long 10000 [--model NAME]... resident memory over a long run

Lines are kept in `build/bench/capture.jsonl`; `--write PAGE` puts the tables of all that are
kept there between the markers of a page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.capturing import table  # noqa: E402
from bench.capturing.jobs import Job  # noqa: E402
from bench.capturing.processes import line, machine  # noqa: E402
from bench.capturing.settings import (  # noqa: E402
    FLOOR,
    FLOORS,
    MODELS,
    PEERS,
    SETTINGS,
    STEPS,
    warm_up_steps,
)

P99_PAIRS, P99_STEPS = 200, 10


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    say = parser.add_argument
    say("--model", choices=MODELS, action="append", help="may be repeated, as the next two")
    say("--setting", choices=list(SETTINGS), action="append")
    say("--by", choices=["mothtrap", "floors", *PEERS], action="append")
    say("--pairs", type=int, help="200 where not said otherwise")
    say("--processes", type=int, default=4, help="that share the pairs of a line")
    say("--p99", action="store_true", help="pairs of ten steps; the default setting")
    say("--long", type=int, metavar="STEPS", help="resident memory; the default setting")
    say("--peers", type=Path, default=ROOT / "build" / "peers", metavar="FOLDER")
    say("--keep", type=Path, default=ROOT / "build" / "bench" / "capture.jsonl", metavar="FILE")
    say("--write", type=Path, metavar="PAGE")
    say("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of torch")
    say("--warm-up", type=int, metavar="STEPS", help="watched steps before the first pair")
    say("--most-s", type=float, default=900.0, help="no pair of a process begins later")
    say("--most-gb", type=float, default=12.0, help="or when it has written so much")
    return parser.parse_args(words)


def jobs(arguments: argparse.Namespace) -> Iterator[Job]:
    """All lines that are asked for."""
    kind = "long" if arguments.long else "p99" if arguments.p99 else "pairs"
    chosen = arguments.setting or (list(SETTINGS) if kind == "pairs" else ["default"])
    who = arguments.by or (["mothtrap", "floors", *PEERS] if kind == "pairs" else ["mothtrap"])
    for model in arguments.model or MODELS:
        for setting in chosen:
            for by in who:
                floors = [FLOOR + name for name in FLOORS[setting]]
                for name in floors if by == "floors" else [by]:
                    yield job(arguments, kind, model, setting, name)
            if kind == "long" and not arguments.by:
                yield job(arguments, kind, model, setting, FLOOR + "nothing")


def job(arguments: argparse.Namespace, kind: str, model: str, setting: str, by: str) -> Job:
    """One line."""
    steps = {"pairs": STEPS[model], "p99": P99_STEPS, "long": arguments.long}[kind]
    pairs = arguments.pairs or (P99_PAIRS if kind == "p99" else 200)
    warm_up = arguments.warm_up
    return Job(
        kind=kind,
        model=model,
        setting=setting,
        by=by,
        folder="",
        threads=arguments.threads,
        pairs=pairs,
        steps=steps,
        warm_up=warm_up_steps(model, setting) if warm_up is None else warm_up,
        most_s=arguments.most_s,
        most_gb=arguments.most_gb,
    )


def main(words: Sequence[str] | None = None) -> None:
    """Run the requested measurements, print and store each line, and write the page."""
    arguments = parsed(words)
    arguments.keep.parent.mkdir(parents=True, exist_ok=True)
    print(f"{machine(arguments.threads)}\n", flush=True)
    headed = False
    for asked in jobs(arguments):
        if not headed:
            print(table.header(asked.kind))
            headed = True
        found = line(asked, arguments.peers, arguments.processes)
        print(table.row(found), flush=True)
        with arguments.keep.open("a", encoding="utf-8") as kept:
            kept.write(json.dumps(found) + "\n")
    if arguments.write:
        lines = [json.loads(text) for text in arguments.keep.read_text().splitlines()]
        table.put_between(arguments.write, table.tables(lines))


if __name__ == "__main__":
    main()
