"""Cost of writing and reading tensors, against a plain write of the same bytes and smdebug.

The writers take turns in one run, each in a separate process and a fresh folder; the
medians over the rounds are printed, and their ratios. `blocked` is what the training thread does
itself; the plain side of it is one copy of the same bytes into memory in use, at the same place
and beside the same writer, which empties the caches of the processor for both. `waiting` is how
long, on the average, it then stands until the writer has taken a step before (`on_full =
"block"`): a training computes meanwhile. `queue_mb` is the memory for copies, as configured.

The written data is read in separate processes, in three conditions: `just written`, as the
writer has left it, in the cache of the operating system or past it; `cold`, with none of it in the
cache; and `warm`, with all of it there. Cold and warm are the same for both readers, are made
before each reading, and are checked; the readers take turns there, `--readings` times in a round.

Of statistics `the same bytes` are those of the rows that are handed over, float64. All rows are
made before the clock starts; those of successive steps lie in different memory, on both sides.

Run: python bench/store.py [--rounds N] [--readings N] [--set NAME] [--folder DIR]
    [--smdebug PYTHON]
`--smdebug` is an interpreter in whose environment `bench/peers/smdebug.txt` is installed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import page_cache
from bench.sets import SETS

ROOT = Path(__file__).resolve().parent.parent
ROOM = 2.2
"""Number of steps that fit into `queue_mb` if two steps do not fit into the default; see
`queue_mb_of`."""
Times = dict[str, float]
Found = dict[str, dict[str, list[float]]]
"""Times by measurement and tool."""
CONDITIONS = {"cold": page_cache.make_cold, "warm": page_cache.make_warm}


def queue_mb_of(name: str) -> int:
    """Return `queue_mb` for a set: the default, or the size of two of its steps."""
    from mothtrap.core.config import Config

    chosen = SETS[name]
    step_bytes = 0 if chosen.statistics else sum(tensor.nbytes for tensor in chosen.tensors())
    return max(int(Config().queue_mb), math.ceil(ROOM * step_bytes / 2**20))


def in_flight(name: str) -> int:
    """Return how many steps wait at most: as wake the writer, so that it sets the pace.

    Up to a quarter of `queue_mb` for raw tensors, and half of it for statistics.
    """
    chosen, limit_bytes = SETS[name], queue_mb_of(name) << 20
    if chosen.statistics:
        return min(limit_bytes // 2 // chosen.rows(1)[0].nbytes + 1, chosen.steps)
    return limit_bytes // 4 // sum(tensor.nbytes for tensor in chosen.tensors()) + 1


def write_plain(name: str, folder: Path) -> Times:
    """One `write` per tensor, or of all statistics, into a file."""
    chosen = SETS[name]
    steps = [chosen.tensors()]
    if chosen.statistics:
        steps = [[rows] for rows in chosen.rows(in_flight(name))]
    with (folder / "plain").open("wb", buffering=0) as file:
        cpu, wall = time.process_time(), time.perf_counter()
        for step in range(chosen.steps):
            for array in steps[step % len(steps)]:
                file.write(array.data)
        return _per_step(cpu, wall, chosen.steps)


def copy_plain(name: str, folder: Path) -> Times:
    """Copy the arrays of a step at the same place as mothtrap, next to its writer."""
    times = write_mothtrap(name, folder, copies_plainly=True)
    return {"blocked_s": times["blocked_s"]}


def write_mothtrap(name: str, folder: Path, *, copies_plainly: bool = False) -> Times:
    """The training thread copies and hands over, the writer thread writes.

    With `copies_plainly` the time of a copy into memory in use, just before that, is `blocked`.
    """
    import numpy as np

    from mothtrap.capture.arena import Arenas
    from mothtrap.capture.channel import Channel
    from mothtrap.capture.raw import KEEP, RawCopies
    from mothtrap.core.records import StepRecord
    from mothtrap.core.steps import StepKey
    from mothtrap.core.tensors import TensorInfo
    from mothtrap.statistics import numpy as arithmetic
    from mothtrap.statistics.summary import WIDTH
    from mothtrap.store.layout import claim_worker
    from mothtrap.store.worker_log import WorkerLog

    chosen = SETS[name]
    tensors = chosen.tensors()
    infos = [
        (i, TensorInfo(kind="weight", name=f"t{i:04d}", shape=t.shape, dtype="float32"))
        for i, t in enumerate(tensors)
    ]
    _, worker = claim_worker(_new_attempt(folder), 0)
    log = WorkerLog(worker)
    failed: list[BaseException] = []
    limit_bytes = queue_mb_of(name) << 20
    waiting = threading.Semaphore(in_flight(name))

    def consume(records: Any) -> None:
        log.append(records)
        for _ in records:
            waiting.release()

    channel = Channel("writer", consume, failed.append, limit_bytes=limit_bytes, on_full="block")
    copies = RawCopies(arithmetic, Arenas(limit_bytes), wait_s=60.0)
    rows = chosen.rows(in_flight(name)) if chosen.statistics else [np.empty((0, WIDTH))]
    ids = np.arange(len(rows[0]), dtype=np.uint32)
    wanted = [(number, tensor, KEEP) for number, tensor in enumerate(tensors)]
    step_bytes = rows[0].nbytes if chosen.statistics else sum(t.nbytes for t in tensors)
    room = np.zeros(step_bytes if copies_plainly else 0, np.uint8).data
    blocked, waited, held = [], [], True
    cpu, wall = time.process_time(), time.perf_counter()
    for step in range(chosen.steps):
        stands = time.perf_counter()
        waiting.acquire()
        began = time.perf_counter()
        waited.append(began - stands)
        if copies_plainly:
            _copy([rows[step % len(rows)]] if chosen.statistics else tensors, room)
            blocked.append(time.perf_counter() - began)
        if not chosen.statistics:
            held &= not copies.add_all(wanted)
        record = StepRecord(
            key=StepKey(step=step, mode_step=step),
            wall_s=0.0,
            defined=tuple(infos) if step == 0 else (),
            tensor_T=ids,
            summary_TF=rows[step % len(rows)],
            raw=tuple(copies.take()),
        )
        channel.put(record)
        if not copies_plainly:
            blocked.append(time.perf_counter() - began)
        del record
    channel.close()
    log.close()
    spent = _per_step(cpu, wall, chosen.steps)
    assert held
    assert not failed, failed
    return {
        **spent,
        "blocked_s": statistics.median(blocked),
        "waiting_s": statistics.mean(waited),
    }


def _copy(arrays: Sequence[Any], room: memoryview) -> None:
    at = 0
    for array in arrays:
        room[at : at + array.nbytes] = array.data.cast("B")
        at += array.nbytes


def read_mothtrap(name: str, folder: Path) -> Times:
    """Open and list, one tensor over all steps, all tensors of one step."""
    from mothtrap.reader.run import open_run

    times = {}
    began = time.perf_counter()
    run = open_run(folder / "run")
    tensors = run.tensors()
    times["open_s"] = time.perf_counter() - began
    assert len(tensors) == SETS[name].count
    whole = not SETS[name].statistics
    began = time.perf_counter()
    history = list(tensors[7].values()) if whole else tensors[7].history("l2").values_S
    times["history_s"] = time.perf_counter() - began
    middle = SETS[name].steps // 2
    began = time.perf_counter()
    step = [tensor.at(middle) if whole else tensor.statistics(middle) for tensor in tensors]
    times["step_s"] = time.perf_counter() - began
    assert len(history) == SETS[name].steps
    assert len(step) == SETS[name].count
    return times


def _new_attempt(folder: Path) -> Path:
    from mothtrap.core.runs import RunInfo
    from mothtrap.store.layout import create_run

    info = RunInfo(
        id="run",
        attempt=1,
        command=(),
        cwd="",
        created_s=time.time(),
        pid=os.getpid(),
        host=platform.node(),
        python="",
        mothtrap="",
    )
    return create_run(folder / "run", info)


def _per_step(cpu: float, wall: float, steps: int) -> Times:
    return {
        "cpu_s": (time.process_time() - cpu) / steps,
        "wall_s": (time.perf_counter() - wall) / steps,
    }


JOBS: dict[str, Callable[[str, Path], Times]] = {
    "plain-write": write_plain,
    "plain-copy": copy_plain,
    "mothtrap-write": write_mothtrap,
    "mothtrap-read": read_mothtrap,
}


def measure(job: str, name: str, folder: Path, smdebug: str | None) -> Times:
    """Do one job in a fresh process."""
    if job.startswith("smdebug"):
        script = ROOT / "bench" / "peers" / "smdebug_store.py"
        command = [str(smdebug), str(script), job.partition("-")[2], name, str(folder)]
    else:
        command = [sys.executable, __file__, "--job", job, "--set", name, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{job} of {name} failed:\n{done.stderr[-2000:]}")
    times: Times = json.loads(done.stdout.strip().splitlines()[-1])
    return times


def compare(name: str, rounds: int, readings: int, base: Path, smdebug: str | None) -> None:
    """Let the writers and readers take turns; print the lines of one set."""
    writers = ["plain", "mothtrap", *(["smdebug"] if smdebug else [])]
    # Of statistics smdebug has a few steps only, see `sets.py`.
    readers = ["mothtrap"] if SETS[name].statistics else writers[1:]
    found: Found = defaultdict(lambda: defaultdict(list))

    def do(job: str, writer: str, folder: Path, condition: str = "") -> None:
        for what, value in measure(f"{writer}-{job}", name, folder, smdebug).items():
            label = what.removesuffix("_s")
            found[f"{label}, {condition}" if condition else label][writer].append(value)

    for round_ in range(rounds):
        turns = writers if round_ % 2 else writers[::-1]
        with tempfile.TemporaryDirectory(dir=base) as made:
            folders = {writer: Path(made) / writer for writer in turns}
            for writer, folder in folders.items():
                folder.mkdir()
                do("write", writer, folder)
                if writer == "plain":
                    do("copy", writer, folder)
                if writer in readers:
                    os.sync()  # what is read is at rest, whoever wrote it
                    do("read", writer, folder, "just written")
                else:
                    shutil.rmtree(folder)
            for condition, prepare in CONDITIONS.items():
                for reader in [writer for writer in turns if writer in readers] * readings:
                    prepare(folders[reader])
                    do("read", reader, folders[reader], condition)
    show(name, writers, found)


def show(name: str, writers: Sequence[str], found: Found) -> None:
    """Print the results of a set, one line per time."""
    for what, by_writer in found.items():
        medians = {writer: statistics.median(values) for writer, values in by_writer.items()}
        cells = [f"{1e3 * medians[w]:.3g}" if w in medians else "-" for w in writers]
        own = medians["mothtrap"]
        ratios = [
            f"{own / medians['plain']:.2f}" if "plain" in medians else "-",
            f"{medians['smdebug'] / own:.1f}" if "smdebug" in medians else "-",
        ]
        row = [name, f"{queue_mb_of(name)}", what, *cells, *ratios]
        print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    """Compare all sets, or do one job of one set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--readings", type=int, default=3, help="of each condition in a round")
    parser.add_argument("--set", choices=list(SETS), action="append")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--smdebug", metavar="PYTHON")
    parser.add_argument("--job", choices=list(JOBS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(JOBS[arguments.job](arguments.set[0], arguments.folder)))
        return
    base = arguments.folder or Path(tempfile.gettempdir())
    peer = " | smdebug ms" if arguments.smdebug else ""
    print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}; "
        f"{arguments.rounds} rounds in {base}; ms per step (writing) or in all (reading)\n"
    )
    heads = f"| set | queue_mb | what | plain ms | mothtrap ms{peer}"
    print(f"{heads} | mothtrap / plain | smdebug / mothtrap |")
    print("|---|---|---|---|---|---|---|" + ("---|" if arguments.smdebug else ""))
    for name in arguments.set or SETS:
        compare(name, arguments.rounds, arguments.readings, base, arguments.smdebug)


if __name__ == "__main__":
    main()
