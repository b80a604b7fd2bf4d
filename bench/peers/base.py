"""Base of the peers of `bench/capture.py`; requires only torch and the standard library.

Two training runs of the same model take turns, one of them watched by the peer. A peer's script
declares its abilities and attaches itself: `python bench/peers/<peer>_capture.py JOB`.
`bench/whole_peers.py` runs the same scripts as complete programs:
`... whole MODEL SETTING STEPS FOLDER`.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from bench.capturing.jobs import FIRST_STEPS, CannotDoError, perform, training_of
from bench.capturing.pairing import Sides, run


@dataclass
class Attached:
    """Calls by which a peer is driven.

    Attributes:
        before_update: with the loss, between backward and update; None = not.
        after_step: with the loss, when the step is done; None = not.
        settle: waits for threads of the peer that still write.
        close: stops watching, and writes all data to the disk.
    """

    before_update: object = None
    after_step: object = None
    settle: object = lambda: None
    close: object = lambda: None


def main(can, cannot, attach):
    """Do the job of the first argument, and print its result.

    Args:
        can: description of the peer's work in each supported setting.
        cannot: why not, for the others.
        attach: gets model, optimizer, setting and an empty folder; returns an `Attached`.
    """

    if sys.argv[1] == "whole":
        model, setting, steps, folder = sys.argv[2:]
        train(attach, model, setting, int(steps), Path(folder))
        return

    def watch(job):
        if job.setting in cannot:
            raise CannotDoError(cannot[job.setting])
        _, _, plain = training_of(job.model)
        model, optimizer, step = training_of(job.model)
        run(plain, FIRST_STEPS)
        run(step, FIRST_STEPS)
        folder = Path(job.folder)
        attached = attach(model, optimizer, job.setting, folder)

        def watched():
            loss = step(attached.before_update)
            if attached.after_step is not None:
                attached.after_step(loss)

        sides = Sides(
            plain=plain,
            watched=watched,
            folder=folder,
            settle=attached.settle,
            close=attached.close,
        )
        return sides, can[job.setting]

    print(perform(sys.argv[1], watch))


def train(attach, name, setting, steps, folder):
    """Train a model from the first step to the last; the setting `plain` attaches nothing."""
    model, optimizer, step = training_of(name)
    attached = Attached()
    if setting != "plain":
        folder.mkdir(parents=True, exist_ok=True)
        attached = attach(model, optimizer, setting, folder)
    for _ in range(steps):
        loss = step(attached.before_update)
        if attached.after_step is not None:
            attached.after_step(loss)
    attached.close()


if __name__ == "__main__":
    main({}, {}, None)
