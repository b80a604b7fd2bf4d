"""SYS101: the training waits for data."""

from __future__ import annotations

import math

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, LoaderBegan
from mothtrap.core.facts.phases import PhasesTimed
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.phases import DATA, OWN
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "SYS101",
    needs=[Need(facts=(PhasesTimed,)), Need(facts=(LoaderBegan, BatchesLoaded), optional=True)],
)
def waits_for_data(
    window: Window,
    *,
    share: float = threshold(
        0.3, unit="of the time", source="chosen by hand: a smaller share is rarely worth a change"
    ),
    idle: float = threshold(
        0.25,
        unit="of the processors' time",
        source=("chosen by hand: else other programs use the machine"),
    ),
    times: int = threshold(3, unit="consecutive observations", source="chosen by hand"),
) -> Found | None:
    """Training waits for data.

    What it detects:
        Steps in which the training thread waits a large part of the time for the next batch of a
        loader, although the machine's processors are idle.

    Why it matters:
        Training could be faster on the same machine: other processes can load batches while the
        model computes.

    Fires:
        Warning when waiting takes `share` of the time, and the processors were idle for `idle` of
        it, in `times` consecutive observations. An observation covers 100 steps or 30 seconds. The
        first one does not count, because worker processes start during it.

    Stays quiet:
        Machines that are busy with other work. Evaluations. A slow first batch of each pass. Jobs
        on an accelerator, where the host may wait for the device while it seems to wait for data.

    What to do:
        - PyTorch: Load batches in worker processes: `DataLoader(..., num_workers=N)`.
        - Do work that is the same in every pass, such as decoding and resizing, once, outside the
          dataset.
        - Read from a local disk, and read many samples at a time.

    Example:
        DataLoader(images, batch_size=64)                  # loads while the model waits
        DataLoader(images, batch_size=64, num_workers=2)

    References:
        PyTorch, Performance Tuning Guide: Enable asynchronous data loading and augmentation,
        https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """
    timed = list(window.seen(PhasesTimed))
    if any(each.accelerator for each in timed):
        raise NotApplicable("the model trains on an accelerator")
    latest = timed[1:][-times:]
    if len(latest) < times:
        raise NotEnoughData(f"needs {times + 1} observations of step times")
    if any(each.seconds[DATA] <= share * _without_own(each) or each.idle < idle for each in latest):
        return None
    steps = latest[-1].step + 1 - latest[0].first_step
    waited_s = sum(each.seconds[DATA] for each in latest)
    whole_s = sum(_without_own(each) for each in latest)
    loader = _training_loader(window)
    workers = loader.workers if loader is not None else 0
    needed = _workers_needed(workers, waited_s, whole_s - waited_s)
    name = f"`{loader.loader}`" if loader is not None else "the loader"
    more = f"Give {name} `num_workers={needed}`, so that loading keeps up with training."
    return Found.of(
        latest,
        f"training waits for data {100 * waited_s / whole_s:.0f} % of the time: "
        f"{1000 * waited_s / steps:.2g} ms of {1000 * whole_s / steps:.2g} ms per step; {name} has "
        f"{workers} worker processes",
        step=latest[0].first_step,
        count=steps,
        evidence={
            "share": waited_s / whole_s,
            "limit": share,
            "workers": workers,
            "needed": needed,
        },
        fixes=(more, 1, 2),
        location=loader.location if loader is not None else None,
    )


def _workers_needed(workers: int, waited_s: float, computed_s: float) -> int:
    """Return the number of worker processes that load batches as fast as the model uses them."""
    if not workers:  # the training thread loads the batches itself
        return max(1, math.ceil(waited_s / computed_s))
    return max(workers + 1, math.ceil(workers * (waited_s + computed_s) / computed_s))


def _training_loader(window: Window) -> LoaderBegan | None:
    """Return the loader whose batches the model was trained on last."""
    trained = [each.loader for each in window.seen(BatchesLoaded) if each.trained]
    begun = list(window.seen(LoaderBegan))
    known = [each for each in begun if trained and each.loader == trained[-1]]
    return next(reversed(known or begun), None)


def _without_own(timed: PhasesTimed) -> float:
    return sum(timed.seconds.values()) - timed.seconds[OWN]
