"""Simulated jobs of many ranks: are faults named with node, rank, and step, and how soon?

Two real gloo ranks train, and are recorded. Their records are then replayed as 1,024 ranks on 32
nodes: a process for each node merges its ranks and sends them to a server that speaks the S3
protocol (moto), as the launcher of a node does. The server answers after 30 ms, and refuses one in
a hundred requests. One rank becomes silent, one slow, one has a NaN, and one has different weights.
`mothtrap monitor` follows the run. It must name each of them within 15 s.

The simulation has no network between machines, and all nodes share one clock.

Run: python bench/many_ranks.py [--nodes 32] [--ranks 32]
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import multiprocessing
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from mothtrap.core.config import Config, plain
from mothtrap.core.fact import Fact, tag_of
from mothtrap.core.facts.replicas import ReplicaBatch, ReplicaDigests
from mothtrap.core.facts.workers import WorkerEnded, WorkerPace, WorkerStarted
from mothtrap.core.findings import Finding
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.runs import RunInfo
from mothtrap.monitor.catalogue import load_rules
from mothtrap.session.node_merging import NodeMerger
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingReader
from mothtrap.store.manifests import Node
from mothtrap.store.mirror import open_mirror
from mothtrap.store.remote import mirrors_folder
from mothtrap.store.upload_queue import UploadQueue
from mothtrap.store.worker_reading import ReadState

JOB = Path(__file__).parent / "silent" / "job.py"
STEPS, STEP_S = 800, 0.05
BAD_STEP = 200
SEND_EVERY_S = 2.0
LATENCY_S, REFUSED = 0.03, 0.01
GIVE_UP_S = 60.0
WITHIN_S = 15.0
PROGRAM = """
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(
    nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
torch.manual_seed(rank + 1)
for _ in range({steps}):
    inputs = torch.randn(32, 16)
    loss = nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""


class Fault(NamedTuple):
    """A planted fault: its kind, its rank, and the code of the rule that finds it."""

    name: str
    rank: int
    code: str


def faults(ranks: int) -> tuple[Fault, ...]:
    """Return the faults of a job of so many ranks, on different nodes."""
    return (
        Fault("slow", ranks // 8 + 3, "DST952"),
        Fault("diverging", 3 * ranks // 8 + 1, "DST951"),
        Fault("silent", 5 * ranks // 8 + 2, "DST954"),
        Fault("nan", 7 * ranks // 8 + 1, "NUM001"),
    )


def recorded(folder: Path) -> list[list[StepRecord]]:
    """Train two real ranks, and return the records of each."""
    script = folder / "train.py"
    script.write_text(PROGRAM.format(steps=STEPS))
    words = [sys.executable, "-m", "mothtrap", "run", "--name", "real", "-q", "--"]
    words += [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(script)]
    subprocess.run(words, cwd=folder, check=True, env=os.environ)
    attempt = folder / "runs" / "real" / "1"
    folders = [layout.worker_folder(attempt, rank) for rank in range(2)]
    return [
        [_trimmed(record) for record in ReadState(folder, has_statistics=False).poll()]
        for folder in folders
    ]


def _trimmed(record: StepRecord) -> StepRecord:
    """Return a record with the scalars that a node merges; its step takes `STEP_S`."""
    losses = tuple(scalar for scalar in record.scalars if scalar.name == "loss")
    scalars = (*losses, Scalar("step_s", "", STEP_S)) if losses else ()
    return dataclasses.replace(record, scalars=scalars)


class Rank:
    """The stream of one simulated rank.

    Args:
        rank: of the simulated worker.
        of: workers of the job.
        host: name of its node.
        records: of a real rank.
        fault: its fault from `BAD_STEP` on; "" = healthy.
    """

    def __init__(
        self, rank: int, of: int, host: str, records: Sequence[StepRecord], fault: str
    ) -> None:
        self.rank, self._of, self._host, self._fault = rank, of, host, fault
        self._records = records
        self._next = 0

    def until(self, step: int) -> Iterator[StepRecord]:
        """Yield the records up to a step, as this rank would write them."""
        while self._next < len(self._records) and self._records[self._next].key.step <= step:
            record = self._records[self._next]
            self._next += 1
            if self._fault == "silent" and record.key.step >= BAD_STEP:
                continue
            if not any(isinstance(seen, WorkerEnded) for seen in record.observations):
                yield self._own(record)

    def is_silent(self, step: int) -> bool:
        """Return whether the rank gives no sign of life at a step."""
        return self._fault == "silent" and step >= BAD_STEP

    def _own(self, record: StepRecord) -> StepRecord:
        is_bad = record.key.step >= BAD_STEP
        changes: dict[str, Any] = {"wall_s": time.time()}
        if record.observations:
            facts = (self._fact(seen, is_bad=is_bad) for seen in record.observations)
            changes["observations"] = tuple(facts)
        if is_bad and self._fault == "nan":
            changes["scalars"] = tuple(Scalar(s.name, s.of, math.nan) for s in record.scalars)
        return dataclasses.replace(record, **changes)

    def _fact(self, seen: Fact, *, is_bad: bool) -> Fact:
        replace = msgspec.structs.replace
        if isinstance(seen, WorkerStarted):
            return replace(seen, rank=self.rank, world_size=self._of, host=self._host)
        if isinstance(seen, ReplicaBatch):
            return replace(seen, size=self._of, digest=f"{seen.digest}{self.rank}")
        if isinstance(seen, WorkerPace):
            own_s = STEP_S * (0.8 if is_bad and self._fault == "slow" else 0.3)
            return replace(seen, step_s=STEP_S, own_s=own_s)
        if isinstance(seen, ReplicaDigests) and is_bad and self._fault == "diverging":
            first = next(iter(seen.digests))
            return replace(seen, digests=seen.digests | {first: "other"})
        if hasattr(seen, "digest") and isinstance(seen.digest, str):
            return replace(seen, digest=f"{seen.digest}{self.rank}")
        return replace(seen, rank=self.rank) if hasattr(seen, "rank") else seen


def replay(
    folder: Path, number: int, ranks: Sequence[Rank], url: str, begin: Event, kinds: frozenset[str]
) -> None:
    """Be the launcher of a node: merge its ranks as they train, and send the merged log."""
    node = Node(f"{number:08x}")
    queue = UploadQueue(folder, url, node=node)
    merger = NodeMerger(folder / "1" / f"n{node.name}", node, kinds, SEND_EVERY_S / 2)
    if number == 0:
        queue.send(final=False)
    begin.wait()
    began_s = time.time()
    sent_s = began_s + SEND_EVERY_S * random.Random(number).random()
    flushed_s = began_s
    while (step := int((time.time() - began_s) / STEP_S)) < STEPS:
        for rank in ranks:
            for record in rank.until(step):
                if record.key.step == BAD_STEP:
                    (folder / f".bad-{rank.rank}").write_text(str(time.time()))
                merger.take(rank.rank, record)
            if step and not rank.is_silent(step):
                merger.take_sign(rank.rank, time.time())
        if step >= BAD_STEP and not (folder / ".bad").exists():
            (folder / ".bad").touch()
        now_s = time.time()
        if now_s - flushed_s >= 1.0:
            merger.flush(now_s)
            flushed_s = now_s
        if now_s >= sent_s:
            try:
                queue.send(final=False)
            except OSError as err:
                print(f"node {number}: {err}", file=sys.stderr)
            sent_s = now_s + SEND_EVERY_S
        time.sleep(max(0.0, 0.25 - (time.time() - now_s)))
    merger.close()
    queue.send(final=False)


def serve(begin: Event, ready: Any) -> None:
    """Serve the S3 protocol in a separate process, with delays and occasional refusals."""
    from tests.s3_server import S3Server, credentials

    server = S3Server()
    answer, chance = server._app, random.Random(0)
    refusal = b"<Error><Code>SlowDown</Code></Error>"

    def late(environ: Any, start_response: Any) -> Any:
        time.sleep(LATENCY_S)
        if begin.is_set() and chance.random() < REFUSED:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("503 Slow Down", [("Content-Type", "application/xml")])
            return [refusal]
        return answer(environ, start_response)

    server._app = late  # type: ignore[assignment]
    ready.send((credentials(server), server.make_bucket()))
    while True:
        question = ready.recv()
        if question == "end":
            return
        ready.send(list(server.log))


def follow(url: str, cwd: Path, begin: Event, planted: Sequence[Fault]) -> Any:
    """Start the monitor and the nodes; return when each fault was found, and the memory."""
    words = [sys.executable, "-m", "mothtrap", "monitor", url, "--select", "DST,NUM"]
    monitor = subprocess.Popen(words, cwd=cwd)
    process, peak, used_s = psutil.Process(monitor.pid), 0, 0.0
    found: dict[str, tuple[float, Finding]] = {}
    readers: dict[Path, FindingReader] = {}
    while not list(mirrors_folder().glob("*/*/1/m*")):  # it has looked once
        time.sleep(0.2)
    begin.set()
    gave_up_s = time.time() + STEPS * STEP_S + 20
    try:
        while len(found) < len(planted) and time.time() < gave_up_s:
            time.sleep(0.2)
            if monitor.poll() is not None:
                break
            peak = max(peak, process.memory_info().rss)
            used_s = sum(process.cpu_times()[:2])
            for folder in mirrors_folder().glob("*/*/1/m*"):
                reader = readers.setdefault(folder, FindingReader(folder))
                reader.poll()
                for finding in reader.findings:
                    for fault in planted:
                        if fault.code == finding.code and finding.workers == (fault.rank,):
                            found.setdefault(fault.name, (time.time(), finding))
        others = [f for r in readers.values() for f in r.findings]
    finally:
        monitor.terminate()
        monitor.wait()
    return found, {"monitor, MB": peak / 2**20, "monitor, CPU s": used_s}, others


def main(words: Sequence[str] | None = None) -> dict[str, float]:
    """Measure, print, and return the figures by name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--ranks", type=int, default=32, help="ranks of each node")
    arguments = parser.parse_args(words)
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        figures = measure(Path(name), arguments.nodes, arguments.ranks)
    for what, value in figures.items():
        print(f"{what:<34} {value:,.1f}")
    return figures


def measure(folder: Path, nodes: int, per_node: int) -> dict[str, float]:
    """Record, replay, follow; return seconds to each finding, requests, and MB."""
    total = nodes * per_node
    planted = faults(total)
    os.environ["MOTHTRAP_CACHE"] = str(folder / "cache")
    streams = recorded(folder)
    begin = multiprocessing.Event()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(begin, there), daemon=True)
    server.start()
    variables, bucket = here.recv()
    os.environ |= variables
    url = f"s3://{bucket}/runs/big"
    kinds = frozenset(
        tag_of(kind)
        for rule in load_rules(Config())
        if rule.compares
        for need in rule.needs
        for kind in need.facts
    )
    launchers = []
    for number in range(nodes):
        spool = folder / "spool" / f"{number}"
        _make_run(spool)
        ranks = [
            Rank(
                rank,
                total,
                f"node{number}",
                streams[rank % 2],
                next((fault.name for fault in planted if fault.rank == rank), ""),
            )
            for rank in range(number * per_node, (number + 1) * per_node)
        ]
        launchers.append(
            multiprocessing.Process(
                target=replay, args=(spool, number, ranks, url, begin, kinds), daemon=True
            )
        )
    for launcher in launchers:  # before this process connects: a fork cannot share connections
        launcher.start()
    while not list((folder / "spool" / "0").glob(".sent-*")):
        time.sleep(0.1)
    found, costs, others = follow(url, folder, begin, planted)
    for launcher in launchers:
        launcher.join()
    costs["server, CPU s"] = sum(psutil.Process(server.pid).cpu_times()[:2])
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    costs["nodes and monitor, CPU s"] = children.ru_utime + children.ru_stime
    figures: dict[str, float] = {"ranks": total, "nodes": nodes, **costs}
    for fault in planted:
        path = folder / "spool" / f"{fault.rank // per_node}"
        bad_s = _when_bad(path, fault.rank)
        at_s, finding = found.get(fault.name, (math.nan, None))
        figures[f"{fault.name}: rank {fault.rank}, s"] = at_s - bad_s
        print(f"{fault.name}: {finding.message if finding else 'not found'}")
        print(f"    step {finding.step if finding else '?'}, workers {finding and finding.workers}")
    figures["other findings"] = len(_unplanted(others, planted))
    for finding in _unplanted(others, planted):
        print(f"other: {finding.code} {finding.severity.value} {finding.message}")
    figures |= _idle(url, here)
    here.send("end")
    server.terminate()
    return figures


def _make_run(spool: Path) -> None:
    info = RunInfo(
        id="big",
        attempt=1,
        command=("train",),
        cwd="/",
        created_s=1.0,
        pid=1,
        host="node0",
        python="3.11",
        mothtrap="0",
        config=plain(Config(workers="merged", evaluate="monitor")),
    )
    layout.create_run(spool, info)


def _when_bad(spool: Path, rank: int) -> float:
    path = spool / f".bad-{rank}"
    return float(path.read_text()) if path.exists() else (spool / ".bad").stat().st_mtime


def _unplanted(findings: Sequence[Finding], planted: Sequence[Fault]) -> list[Finding]:
    ranks = {(fault.code, (fault.rank,)) for fault in planted}
    last = {finding.fingerprint: finding for finding in findings}
    return [f for f in last.values() if (f.code, f.workers) not in ranks]


def _idle(url: str, server: Any) -> dict[str, float]:
    """Return the requests and seconds of a poll without new data."""
    mirror = open_mirror(url)
    mirror.sync()
    mirror.sync()
    server.send("log")
    before = len(server.recv())
    began_s = time.perf_counter()
    mirror.sync()
    took_s = time.perf_counter() - began_s
    server.send("log")
    return {"requests of an idle look": len(server.recv()) - before, "idle look, s": took_s}


if __name__ == "__main__":
    figures = main()
    late = [name for name, s in figures.items() if ": rank" in name and not s <= WITHIN_S]
    sys.exit(bool(late or figures["requests of an idle look"] > figures["nodes"]))
