"""Lower bounds that no tool can undercut: the least work on the bytes concerned."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.capturing.jobs import FIRST_STEPS, Job, training_of
from bench.capturing.pairing import Sides, run
from bench.capturing.settings import FLOOR

NOTES = {
    "nothing": "the same step twice, to show how far from 1 the ratio gets by chance",
    "norm": "one norm over all gradients in one fused call, before the update",
    "read": "all bytes read once, by a checksum, before the update",
    "memcpy": "all bytes copied into reused memory",
    "copy and write": "the same, and a thread writes the copy to a file",
}
WAITING = 1
"""Number of copies that wait for the writer thread, in addition to the copy being written."""


def sides(job: Job) -> tuple[Sides, str]:
    """Return the sides of a floor, and its description."""
    name = job.by.removeprefix(FLOOR)
    model, _, step = training_of(job.model)
    run(step, FIRST_STEPS)
    folder = Path(job.folder)
    act: Callable[[torch.Tensor], object] | None = None
    settle = close = lambda: None
    around: Any = nullcontext
    if name == "norm":
        act = _norm(model)
    elif name == "read":
        act = lambda _: _read(_parameters_and_gradients(model))  # noqa: E731
        if job.setting == "everything":
            around = _reading_outputs(model)
    elif name != "nothing":
        copies = Copies(model)
        act = copies.take
        if name == "copy and write":
            writer = Writer(copies, folder / "copy")
            act, settle, close = writer.put, writer.settle, writer.close
    return (
        Sides(
            plain=step,
            watched=lambda: step(act),
            folder=folder,
            unwatched=around,
            settle=settle,
            close=close,
        ),
        NOTES[name],
    )


def _parameters_and_gradients(model: nn.Module) -> list[torch.Tensor]:
    parameters = list(model.parameters())
    return [p.detach() for p in parameters] + [p.grad for p in parameters if p.grad is not None]


def _norm(model: nn.Module) -> Callable[[torch.Tensor], object]:
    def norm(_: torch.Tensor) -> float:
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))

    return norm


def _read(tensors: list[torch.Tensor]) -> None:
    import xxhash

    for tensor in tensors:
        xxhash.xxh3_64_intdigest(tensor.detach().contiguous().view(-1).numpy())


def _reading_outputs(model: nn.Module) -> Any:
    """Read the outputs of all modules without submodules; return a context that suspends this."""

    def read(_: nn.Module, __: Any, output: Any) -> None:
        values = output if isinstance(output, tuple) else (output,)
        _read([value for value in values if isinstance(value, torch.Tensor)])

    def hook() -> list[Any]:
        leaves = [m for m in model.modules() if not any(m.children())]
        return [leaf.register_forward_hook(read) for leaf in leaves]

    handles = hook()

    @contextmanager
    def out() -> Iterator[None]:
        for handle in handles:
            handle.remove()
        try:
            yield
        finally:
            handles[:] = hook()

    return out


class Copies:
    """Memory for copies of all parameters and gradients."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        tensors = _parameters_and_gradients(model)
        self._arenas = [
            torch.zeros(sum(t.numel() for t in tensors), dtype=tensors[0].dtype)
            for _ in range(WAITING + 2)
        ]

    def take(self, _: torch.Tensor) -> torch.Tensor:
        """Copy them; the memory is reused after `WAITING + 1` more calls."""
        tensors = _parameters_and_gradients(self._model)
        arena = self._arenas.pop(0)
        self._arenas.append(arena)
        places = arena.split([t.numel() for t in tensors])
        for place, tensor in zip(places, tensors, strict=True):
            place.copy_(tensor.view(-1))
        return arena


class Writer:
    """Writes copies to a file on a separate thread; waits if this thread is behind."""

    def __init__(self, copies: Copies, path: Path) -> None:
        self._copies = copies
        self._file = path.open("wb", buffering=0)
        self._queue: queue.Queue[torch.Tensor | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, name="copy-writer")
        self._thread.start()

    def put(self, loss: torch.Tensor) -> None:
        """Copy, and have it written."""
        self._queue.put(self._copies.take(loss))

    def settle(self) -> None:
        """Wait until everything is written."""
        self._queue.join()

    def close(self) -> None:
        """Write the waiting copies, and close the file."""
        self._queue.put(None)
        self._thread.join()
        self._file.close()

    def _work(self) -> None:
        while (copy := self._queue.get()) is not None:
            left = memoryview(copy.numpy()).cast("B")
            while left:
                left = left[os.write(self._file.fileno(), left) :]
            self._queue.task_done()
