"""The threads that torch computes with on the host: they read beside the one that trains."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from pathlib import Path

import torch

_LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
_PROCESS = os.getpid()


def region() -> int:
    """Return where a parallel region of torch's begins, for the compiled part.

    Returns:
        The address of `GOMP_parallel` in the OpenMP runtime that torch itself uses, which takes
        as many threads as torch does. 0 where a thread is to read alone: where that runtime has
        no such function; beside the main thread, since each thread that calls it gets
        others; and in a forked process, in which the threads are not there and would be waited for.
    """
    is_main = threading.get_ident() == threading.main_thread().ident
    return _address() if is_main and os.getpid() == _PROCESS else 0


@functools.cache
def _address() -> int:
    try:
        function = ctypes.CDLL(os.fspath(_LIBRARY)).GOMP_parallel  # loaded by torch already
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0
