"""Start trainings that are to be killed; each input line has a folder and a kind of writer.

Each is a forked child. Its pid is printed first, then every step that it has passed on, and `end`
when the child has ended. The contents of a step follow from its number.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.store.records import record
from tests.store.test_raw_log import block

from mothtrap.capture.channel import Channel
from mothtrap.capture.side_channel import SideChannel
from mothtrap.core.records import StepRecord
from mothtrap.session import side_writer
from mothtrap.store.worker_log import WorkerLog

ROLL_BYTES = 50_000


def step_record(step: int) -> StepRecord:
    """Return the captures of one step of a training."""
    values = np.random.default_rng(step).integers(0, 256, 500 + 97 * (step % 7), np.uint8)
    return record(step, raw=(block(values),) if step % 3 == 0 else ())


def fail(error: BaseException) -> None:
    say(f"failed: {error}")


def say(text: object) -> None:
    os.write(1, f"{text}\n".encode())


def channel(folder: Path, writer: str) -> Channel | SideChannel:
    if writer == "process":
        ring, alive = side_writer.start(folder, queue_bytes=1 << 20, durability="crash")
        return SideChannel(ring, alive, fail, on_full="block")
    log = WorkerLog(folder, roll_bytes=ROLL_BYTES)

    def consume(records: Sequence[StepRecord]) -> None:
        log.append(records)

    return Channel("writer", consume, fail, limit_bytes=1 << 20, on_full="block", poll_s=0.005)


def train(folder: Path, writer: str) -> None:
    say(os.getpid())
    sys.setswitchinterval(0.0001)  # or the writer would hardly run in such a short life
    records = channel(folder, writer)
    work = np.ones((240, 240))
    for step in range(10**9):
        item = step_record(step)
        size = 60 * (step % 5)  # steps take different times and leave the interpreter to the writer
        work[:size, :size] @ work[:size, :size]
        records.put(item, urgent=step % 11 == 0)
        say(step)


if __name__ == "__main__":
    for line in sys.stdin:
        words = line.split()
        child = os.fork()
        if not child:
            train(Path(words[0]), words[1])
        os.waitpid(child, 0)
        say("end")
