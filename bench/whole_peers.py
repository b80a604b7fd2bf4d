"""Time that each tool adds to a complete program with its default settings.

Each tool runs in its own environment (`make peers`). Processes without and with the tool take
turns. mothtrap is used with `mothtrap run`, the other tools as their documentation says.

Run: python bench/whole_peers.py [--pairs 5] [--model resnet] [--steps 200] [--by NAME]...
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.capturing.processes import machine  # noqa: E402
from bench.capturing.settings import MODELS, PEERS  # noqa: E402
from bench.whole import run  # noqa: E402

TOOLS = ("mothtrap", *PEERS)
PLAIN = "plain"


def words(by: str, peers: Path, setting: str, program: Sequence[str], folder: str) -> list[str]:
    """Return the command that runs the program under a tool, or without it."""
    model, steps = program
    if by == "mothtrap":
        start = [] if setting == PLAIN else ["-m", "mothtrap", "run", "--runs-dir", folder, "--"]
        script = ROOT / "bench" / "peers" / "base.py"
        plain = [sys.executable, str(script), "whole", model, PLAIN, steps, folder]
        return [sys.executable, *start, *plain] if start else plain
    script = ROOT / "bench" / "peers" / f"{by}_capture.py"
    interpreter = peers / by / "bin" / "python"
    return [str(interpreter), str(script), "whole", model, setting, steps, f"{folder}/kept"]


def row(by: str, peers: Path, program: Sequence[str], pairs: int) -> str:
    """Run the program plain and watched, in turns; return a row of the table."""
    plain, watched = [], []
    for _ in range(pairs):
        for took, setting in ((plain, PLAIN), (watched, "default")):
            with tempfile.TemporaryDirectory() as folder:
                command = words(by, peers, setting, program, folder)
                took.append(run(command, folder, PYTHONPATH=str(ROOT)))
    added = [b.wall_s - a.wall_s for a, b in zip(plain, watched, strict=True)]
    cpu = [b.cpu_s - a.cpu_s for a, b in zip(plain, watched, strict=True)]
    plain_s = statistics.median(each.wall_s for each in plain)
    return (
        f"| {by} | {plain_s:.1f} s | {statistics.median(added):.2f} s "
        f"[{min(added):.2f}, {max(added):.2f}] | {statistics.median(cpu):.2f} s |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--model", choices=MODELS, default="resnet")
    parser.add_argument("--steps", default="200")
    parser.add_argument("--by", choices=TOOLS, action="append")
    parser.add_argument("--peers", type=Path, default=ROOT / "build" / "peers")
    options = parser.parse_args()
    print(f"{machine(2)}; {options.model}, {options.steps} steps\n")
    print("| tool | without it | added wall time | added processor time |")
    print("|---|---|---|---|")
    for by in options.by or TOOLS:
        program = (options.model, options.steps)
        print(row(by, options.peers.absolute(), program, options.pairs), flush=True)


if __name__ == "__main__":
    main()
