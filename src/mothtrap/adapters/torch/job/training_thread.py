"""Decide which thread of a process is observed if several threads train.

The steps of two threads that train at the same time would be mixed. The gradients of a thread must
also not be read while its backward writes them, which PyTorch does without holding the GIL. So only
one thread runs hooks at a time, starting with the first that trains. All other threads pass through
every hook as if it did not exist, and the run reports this. When the observed thread has ended, or
waits for other threads, another thread is observed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from types import FrameType
from typing import Any

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job.uncompiled import uncompiled
from mothtrap.tracing.jobs.adapter_job import AdapterJob

OTHERS = (
    "training in other threads",
    "only one thread of a process is observed at a time, starting with the first that trains; "
    "mothtrap moves to another one when it ends or waits",
)
"""Entry of the run's list of unobserved parts."""
EARLY = 16
"""Number of first backwards and steps of a thread during which its observation may still start.
A thread starts before other threads wait for it. Later, the record would start in the middle of
training. Chosen by hand."""
IDLE_S = 60.0
"""Seconds without an event in the observed thread after which another one is observed; chosen by
hand, above the time that loading a batch takes."""

_KEY = "mothtrap.training_thread"
_STDLIB = os.path.dirname(threading.__file__)
_THREADING = threading.__file__
_POOLS = (
    os.path.join(_STDLIB, "concurrent", "futures", ""),
    os.path.join(_STDLIB, "multiprocessing", "pool.py"),
)
"""Code that waits for tasks in other threads, or for the next task."""
_BUSY = (
    *(
        os.path.join(os.path.dirname(torch.__file__), part, "")
        for part in ("autograd", "optim", "nn")
    ),
    os.path.join(Path(__file__).parents[3], ""),  # mothtrap itself
    "<mothtrap",
)
"""Code that a thread runs during a step or inside a hook."""

LeftOut = Callable[[Optimizer | None, Any], None]


class _Here(threading.local):
    """Counts the unobserved backwards and steps of a thread in its current training run."""

    missed = 0
    refused: Optimizer | None = None


@uncompiled
class TrainingThread:
    """The one thread whose training is observed.

    Args:
        job: runs no hook in another thread, once the thread is known.

    Attributes:
        watched: the thread whose forward passes are observed; before the first backward pass or
            step, the importing thread.
        several: more than one thread trains, or has trained.
        unsaid: missing parts of the run and the reasons, reported when the step closes.
        moved: called in the thread that is observed next.
        left_out: called in an unobserved thread, with the optimizer that is about to step, or with
            the roots of a backward pass that begins.
        activity: changes whenever the observed thread makes progress.
    """

    def __init__(self, job: AdapterJob) -> None:
        self._job = job
        self.watched = get_ident()
        self.several = False
        self.unsaid: list[tuple[str, str]] = []
        self.moved: Callable[[], None] = lambda: None
        self.left_out: LeftOut = lambda *_: None
        self.activity: Callable[[], object] = lambda: None
        self._thread: threading.Thread | None = None
        self._here = _Here()
        self._seen: tuple[object, float] = (None, 0.0)
        self._token: object = None
        self._is_said = False
        self._of_autograd: set[int] = set()
        job.elsewhere = self.is_elsewhere

    def joins(self, optimizer: Optimizer | None = None, roots: Any = None) -> bool:
        """Return whether a backward or step that begins is observed.

        Called in threads that are not observed; the calling thread may become the observed one.

        Args:
            optimizer: the optimizer that is about to step.
            roots: starting tensors of the backward pass.
        """
        if optimizer is not None and optimizer is self._here.refused:
            return False
        if self._is_of_autograd():
            return not self.is_elsewhere()
        before = self._job.thread
        begins = optimizer is None  # otherwise it is in the middle of a step
        if (not before or self._may_take_over(begins)) and self._take_over(before):
            return True
        self.several = True
        if not self._is_said:
            self._is_said = True
            self.unsaid.append(OTHERS)
        self._here.missed += 1
        self.left_out(optimizer, roots)
        return False

    def refuse(self, optimizer: Optimizer | None) -> None:
        """Make hooks inside an unobserved step ignore it.

        Args:
            optimizer: the optimizer that the calling thread steps; None when the step is over.
        """
        self._here.refused = optimizer

    def is_elsewhere(self) -> bool:
        """Return whether the calling thread is not the observed one."""
        if not self._job.thread or get_ident() == self._job.thread:
            return False
        if self._is_of_autograd():
            return self.several and not self._works_for_observed()
        return not self._is_over()

    def is_idle(self) -> bool:
        """Return whether the observed thread has ended, or waits for other threads."""
        return self._is_over() or waits_for_threads(self._job.thread)

    def follows(self) -> bool:
        """Return whether to observe another thread because the observed one has ended.

        Whether its thread trains becomes known only in its backward pass.
        """
        observed = self._job.thread
        if not observed or self.watched != observed or not self._is_over():
            return False
        self.watched = get_ident()
        return True

    def is_left_out(self) -> bool:
        """Return whether the calling thread trains without being observed."""
        return self._here.missed > 0

    def begins(self) -> None:
        """Record that the calling thread creates an optimizer, which starts a new run."""
        self._here.missed = 0

    def report(self) -> None:
        """Record missing parts of the run; called when a step closes, and at the end."""
        self.mark_backwards()
        while self.unsaid:
            self._job.blind(*self.unsaid.pop())

    def mark_backwards(self) -> None:
        """Mark the observed thread, so that PyTorch marks the threads of its backwards."""
        if self._token is None:
            # Private API, also used by `torch._inductor.cudagraph_trees`, and covered by a test.
            self._token = object()
            torch._C._stash_obj_in_tls(_KEY, self._token)

    def end(self) -> None:
        """Let the calling thread end the observation, whichever thread was observed."""
        self._job.thread = self.watched = get_ident()

    # Choice of the next observed thread

    def _take_over(self, before: int) -> bool:
        here, watched = get_ident(), self.watched
        self._job.thread = self.watched = here
        if before and _is_busy(before):
            self._job.thread, self.watched = before, watched  # it has continued meanwhile
            return False
        self._thread = next((t for t in threading.enumerate() if t.ident == here), None)
        self._here.missed, self._token = 0, None
        if before:
            self.several = True
            self.moved()
        return True

    def _may_take_over(self, begins: bool) -> bool:
        if self._thread is not None and not self._thread.is_alive():
            return True  # although another thread may have the same number by now
        if begins and self._here.missed < EARLY and waits_for_threads(self._job.thread):
            return True
        now, (activity, since_s) = self.activity(), self._seen
        if now != activity:
            self._seen = now, time.monotonic()
            return False
        return time.monotonic() - since_s > IDLE_S and not _is_busy(self._job.thread)

    def _is_over(self) -> bool:
        """Return whether the observed thread has ended, and no other thread has got its number."""
        if self._thread is not None and self._thread.is_alive():
            return False
        return self._job.thread not in sys._current_frames()

    # Threads of PyTorch that run backward passes on devices

    def _is_of_autograd(self) -> bool:
        """Return whether this is a thread that PyTorch started for part of a backward pass."""
        if torch._C._current_graph_task_id() < 0:  # private API, covered by a test
            return False
        here = get_ident()
        if here not in self._of_autograd:
            every = threading.enumerate()
            own = {t.ident for t in every if not isinstance(t, threading._DummyThread)}
            if here in own:
                return False
            self._of_autograd.add(here)  # they never end
        return True

    def _works_for_observed(self) -> bool:
        if self._token is None or not torch._C._is_key_in_tls(_KEY):
            return False
        return torch._C._get_obj_in_tls(_KEY) is self._token


def _frame_of(thread: int) -> FrameType | None:
    return sys._current_frames().get(thread)


def _is_busy(thread: int) -> bool:
    """Return whether a thread is inside a function of PyTorch or a hook."""
    frame = _frame_of(thread)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_BUSY):
            return True
        frame = frame.f_back
    return False


def waits_for_threads(thread: int) -> bool:
    """Return whether a thread waits for another thread, a task of a pool, or its next task."""
    frame = _frame_of(thread)
    while frame is not None and frame.f_code.co_filename == _THREADING:
        if frame.f_code.co_name == "join":
            return not _is_busy(thread)
        frame = frame.f_back
    return (
        frame is not None and frame.f_code.co_filename.startswith(_POOLS) and not _is_busy(thread)
    )
