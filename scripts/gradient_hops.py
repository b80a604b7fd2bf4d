"""Count the files of mothtrap between a gradient's hook and the append of its segment.

A small network is trained under `mothtrap.watch`. Counted are the files on the stack when the
hook of the optimizer hands the gradients over, from there when a step is put into the
queue, and when the thread that writes appends to a segment.

    python scripts/gradient_hops.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

import torch
from torch import nn

import mothtrap

PACKAGE = str(Path(mothtrap.__file__).parent) + os.sep
HISTOGRAMS = "store/raw_log.py"
"""They are stored in a table of their own."""
RECORDER, QUEUE, SEGMENTS = "capture/recorder.py", "capture/channel.py", "store/segments.py"


def stack_of(frame: FrameType | None) -> list[str]:
    """Files of mothtrap on the stack, outermost first."""
    files = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            files.append(frame.f_code.co_filename.removeprefix(PACKAGE))
        frame = frame.f_back
    return files[::-1]


def way_of_a_gradient() -> list[str]:
    """Train ten steps in the working directory; return the files in the order of crossing."""
    stages: dict[str, list[str]] = {}

    def look(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_qualname
        if event == "call" and name == "Captures.reduce" and frame.f_locals["kind"] == "gradient":
            stages.setdefault("read", stack_of(frame))
        elif event == "call" and name == "Channel.put":
            files = stack_of(frame)
            stages.setdefault("queued", files[files.index(RECORDER) :])
        elif event == "call" and name == "SegmentWriter.append":
            files = stack_of(frame)
            if HISTOGRAMS not in files:
                stages.setdefault("written", files)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        _train()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(
        dict.fromkeys(file for name in ("read", "queued", "written") for file in stages[name])
    )


def _train() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dbg = mothtrap.watch(model, optimizer)
    for _ in range(10):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,))).backward()
        optimizer.step()
    dbg.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        files = way_of_a_gradient()
    print("\n".join(files))
    print(f"{len(files)} files")
