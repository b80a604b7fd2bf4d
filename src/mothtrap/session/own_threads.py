"""Processor time of the threads that mothtrap runs in a process."""

from __future__ import annotations

import threading
import time

import psutil

PREFIX = "mothtrap"
"""Prefix of the name of every thread of mothtrap."""

_ended: dict[threading.Thread, float] = {}
"""Processor seconds of threads that have ended, or are about to."""


def thread_ends() -> None:
    """Record the processor time of this thread before it ends."""
    _ended[threading.current_thread()] = time.thread_time()


def own_threads_s() -> float:
    """Return the processor seconds of mothtrap's threads so far; 0 if unknown."""
    ended = dict(_ended)
    live = (each for each in threading.enumerate() if each not in ended)
    own = {each.native_id for each in live if each.name.startswith(PREFIX)}
    try:
        threads = psutil.Process().threads()
    except psutil.Error:
        return 0.0
    running_s = sum(each.user_time + each.system_time for each in threads if each.id in own)
    return float(running_s + sum(ended.values()))
