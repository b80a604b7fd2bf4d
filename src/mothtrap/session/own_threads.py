"""Processor time of the threads that mothtrap runs in a process."""

from __future__ import annotations

import threading

import psutil

PREFIX = "mothtrap"
"""Begins the name of every thread of mothtrap."""


def own_threads_s() -> float:
    """Return the processor seconds of the threads of mothtrap so far; 0 where unknown."""
    own = {each.native_id for each in threading.enumerate() if each.name.startswith(PREFIX)}
    try:
        threads = psutil.Process().threads()
    except psutil.Error:
        return 0.0
    return float(sum(each.user_time + each.system_time for each in threads if each.id in own))
