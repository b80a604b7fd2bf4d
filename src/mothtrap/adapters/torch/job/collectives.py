"""The last collective operation that a process called, for jobs that hang."""

from __future__ import annotations

import linecache
import sys
from types import FrameType
from typing import Any

import msgspec
import torch

from mothtrap.core.facts.stalls import CollectiveCall
from mothtrap.tracing.source import frames

_C10D = "/torch/distributed/distributed_c10d.py"
_WITHIN = ("/torch/distributed/", "/torch/nn/parallel/distributed.py")
_BACKWARD = "_engine_run_backward"
"""The autograd function inside which `DistributedDataParallel` waits."""
UNNAMED = "a collective"


class _Entry(msgspec.Struct):
    """An entry of PyTorch's flight recorder, with the names of its JSON (tested with 2.13)."""

    collective_seq_id: int = 0
    profiling_name: str = ""
    process_group: tuple[str, ...] = ()
    is_p2p: bool = False


class _Trace(msgspec.Struct):
    entries: list[_Entry] = []


def last_call(frame: FrameType) -> CollectiveCall | None:
    """Return the last collective that this process called; None if it called none.

    Args:
        frame: the innermost frame of the training thread.
    """
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        return None
    entry, inside = _recorded(), _waits_in(frame)
    if entry is None:
        return CollectiveCall(name=inside, waits=True) if inside else None
    recorded = entry.profiling_name.rpartition(":")[2] or UNNAMED
    name = recorded if inside in ("", UNNAMED) else inside
    group = entry.process_group[0] if entry.process_group else ""
    number = entry.collective_seq_id
    return CollectiveCall(name=name, number=number, group=group, waits=bool(inside))


def _recorded() -> _Entry | None:
    """Return the last entry of the flight recorder; None if there is none.

    The recorder keeps entries if `TORCH_FR_BUFFER_SIZE` is above 0. Its binary form, a pickle, is
    not read.
    """
    module: Any = sys.modules.get("torch._C._distributed_c10d")
    dump = getattr(module, "_dump_fr_trace_json", None)
    if dump is None:
        return None
    try:
        entries = msgspec.json.decode(dump(), type=_Trace).entries
    except (msgspec.DecodeError, RuntimeError, TypeError):  # a private function: it may change
        return None
    called = [entry for entry in entries if not entry.is_p2p]
    return called[-1] if called else None


def _waits_in(innermost: FrameType) -> str:
    """Return the collective that the thread is executing; "" outside of collectives."""
    name, frame = "", innermost
    while not frames.is_users(frame):
        code = frame.f_code
        if code.co_filename.endswith(_C10D):
            if not code.co_name.startswith("_") and code.co_name != "wrapper":
                name = code.co_name
        elif any(part in code.co_filename for part in _WITHIN) or code.co_name == _BACKWARD:
            name = name or UNNAMED
        if frame.f_back is None:
            return name
        frame = frame.f_back
    if not name and frame is innermost and _calls_wait(frame):
        return UNNAMED
    return name


def _calls_wait(frame: FrameType) -> bool:
    """Return whether a line waits for an operation that was started earlier: `work.wait()`."""
    return ".wait(" in linecache.getline(frame.f_code.co_filename, frame.f_lineno)
