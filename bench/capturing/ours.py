"""mothtrap, and the floors below any tool: `python -m bench.capturing.ours JOB` does one job."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from bench.capturing import floors
from bench.capturing.jobs import FIRST_STEPS, Job, perform, training_of
from bench.capturing.pairing import Sides, run
from bench.capturing.settings import FLOOR, SETTINGS, WITH_RING

LONGEST_S = 60.0


def watch(job: Job) -> tuple[Sides, str]:
    """Watch a training as `mothtrap run` does; hooks are out while plain steps are made."""
    import msgspec

    from bench.capturing.hooks import hooks_out_and_in
    from mothtrap.adapters.torch import ADAPTER
    from mothtrap.core.config import Config
    from mothtrap.session import launch
    from mothtrap.session.worker import Worker

    folder = Path(job.folder)
    config = msgspec.convert({**SETTINGS[job.setting], "runs_dir": str(folder)}, Config)
    worker = Worker(
        lambda: launch.create("bench", ["bench"], config, numbered=True),
        config,
        ADAPTER.arrays,
        lambda line: print(line, file=sys.stderr),
    )
    ringed = job.setting == WITH_RING
    watched = msgspec.structs.replace(config, capture="default") if ringed else config
    with hooks_out_and_in() as unwatched:
        worker.job.config = watched
        worker.attach(ADAPTER)
    _, _, step = training_of(job.model)
    with unwatched():
        run(step, FIRST_STEPS)

    def settle() -> None:
        writer: Any = worker._parts.get("writer", (None,))[0]
        waited_until = time.monotonic() + LONGEST_S
        while writer is not None and (writer._raw_bytes or writer._consumed):
            if time.monotonic() > waited_until:
                raise TimeoutError(f"after {LONGEST_S:.0f} s the writer has not caught up")
            time.sleep(0.01)

    return (
        Sides(
            plain=step,
            watched=step,
            folder=folder,
            unwatched=unwatched,
            settle=settle,
            own_s=lambda: worker.recorder.times.own_s,
            close=worker.close,
        ),
        "",
    )


def main() -> None:
    """Do the job that the first argument describes."""

    def chosen(job: Job) -> tuple[Sides, str]:
        return floors.sides(job) if job.by.startswith(FLOOR) else watch(job)

    print(perform(sys.argv[1], chosen))


if __name__ == "__main__":
    main()
