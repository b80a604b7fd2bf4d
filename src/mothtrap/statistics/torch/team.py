"""Torch's CPU threads, which help the training thread to read tensors.

Only torch may start them. If mothtrap started them, a program that forks would hang, a program at
its thread limit would end, and settings that the program makes later for processors or denormal
numbers would have no effect. So they are used only once torch is known to have used them.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from pathlib import Path

import torch

_LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
_NEVER = (-1, -1, -1)
_COMPILER = "torch._inductor.codegen"
SHARED_ELEMENTS = 2**16
"""Number of elements of a tensor that is read in parallel; torch distributes an elementwise
operation from half as many elements on.
"""


class Team:
    """The threads of one process, as far as they are known to exist."""

    def __init__(self) -> None:
        self._met = _NEVER

    def met(self, tensor: torch.Tensor) -> None:
        """Record that torch has just changed each element of a tensor on this thread.

        Args:
            tensor: tensor of any type; small tensors and tensors on a device are ignored.
        """
        if tensor.is_cpu and tensor.numel() >= SHARED_ELEMENTS:
            # Compiled operations use the threads of a runtime that may be a different one.
            self._met = _NEVER if _COMPILER in sys.modules else _here()

    def region(self) -> int:
        """Return the address of torch's parallel regions, for the compiled part.

        Returns:
            The address of `GOMP_parallel` in torch's OpenMP runtime. 0 if only this thread should
            read: if torch was not seen using the current number of other threads in this process,
            or if its threads belong to another runtime.
        """
        return _address() if self._met == _here() and self._met[-1] > 1 else 0


TEAM = Team()


def _here() -> tuple[int, int, int]:
    return os.getpid(), threading.get_ident(), torch.get_num_threads()


@functools.cache
def _address() -> int:
    if "parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return 0
    try:
        loaded = ctypes.CDLL(os.fspath(_LIBRARY), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        own = _address_of(loaded)
        # If the process preloaded another runtime, torch calls that instead of its own.
        return own if _address_of(ctypes.CDLL(None)) == own else 0
    except (OSError, AttributeError):
        return 0


def _address_of(library: ctypes.CDLL) -> int:
    return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0
