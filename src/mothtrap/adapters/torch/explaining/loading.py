"""Explain errors of loaders: workers that failed or were killed, and samples that do not stack."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.explaining.explanation import Explanation
from mothtrap.adapters.torch.explaining.scene import Function, Scene
from mothtrap.adapters.torch.explaining.sources import Sources

_WORKER = re.compile(r"Caught (\w+) in DataLoader worker process (\d+)")
_GONE = re.compile(
    r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:is killed by signal: (\w+)|exited unexpected)"
)
_COLLATE = re.compile(
    r"stack expects each tensor to be equal size|each element in list of batch should be of equal"
    r"|Trying to resize storage that is not resizable|batch must contain tensors"
)
_RAISED = re.compile(r'File "([^"]+)", line (\d+), in (\w+)')


def explain(scene: Scene, sources: Sources) -> Explanation | None:
    """Explain an exception from a loader; None for other exceptions."""
    gone = _GONE.search(scene.message)
    if gone is not None:
        return _gone(sources, gone[1])
    if scene.function("fetch", "_process_data") is None:
        return None
    if _COLLATE.search(scene.message):
        return _uneven(scene, sources)
    worker = _WORKER.search(scene.message)
    if worker is not None:
        return _of_worker(scene, sources, worker[1], worker[2])
    return _of_data_set(scene, sources)


def _gone(sources: Sources, signal: str | None) -> Explanation:
    how = f"was killed by the signal {signal}" if signal else "ended without a message"
    killed = signal in (None, "Killed", "SIGKILL")
    return Explanation(
        kind="data",
        sentence=f"a worker process of {_loader(sources)} {how}"
        + (", as happens when memory runs out" if killed else ""),
        fixes=(
            "use fewer workers, or a dataset that is not copied into each worker",
            "use num_workers=0 to see the exception, if there is one",
            "in a container, give it a larger /dev/shm (--shm-size)",
        ),
        concerns_batch=False,
    )


def _of_worker(scene: Scene, sources: Sources, kind: str, number: str) -> Explanation:
    lines = [line for line in scene.message.splitlines() if line.strip()]
    places = [place for place in _RAISED.findall(scene.message) if "site-packages" not in place[0]]
    at = f" at {places[-1][0]}:{places[-1][1]}" if places else ""
    last = lines[-1].strip() if lines else kind
    return Explanation(
        kind="data",
        sentence=f"worker {number} of {_loader(sources)} could not create a batch{at}: {last[:200]}"
        + _samples(sources),
        fixes=(
            (
                "use num_workers=0 to raise it in the script itself, where a debugger shows the "
                "sample"
            ),
        ),
        concerns_batch=False,
    )


def _of_data_set(scene: Scene, sources: Sources) -> Explanation:
    name = type(scene.error).__name__
    text = f"{_loader(sources)} could not create a batch: {name}: {scene.message[:200]}"
    one = _one(scene.functions)
    return Explanation(
        kind="data",
        sentence=text
        + (f"; it was sample {one} of the loader" if one is not None else "")
        + _samples(sources),
        concerns_batch=False,
    )


def _uneven(scene: Scene, sources: Sources) -> Explanation:
    first = next(line for line in scene.message.splitlines() if _COLLATE.search(line))
    return Explanation(
        kind="shape",
        sentence=f"the samples of {_loader(sources)} do not fit into one batch: "
        f"{first.split('Error: ')[-1].strip()}" + _samples(sources),
        fixes=(
            "pad or crop every sample to one size in the dataset",
            "or build the batch yourself: DataLoader(..., collate_fn=pad_batch)",
        ),
        concerns_batch=False,
    )


def _loader(sources: Sources) -> str:
    """Return the loader that was loading a batch."""
    source = sources.asked[0] if sources.asked is not None else None
    if source is None:
        return "the loader"
    return source.label + (f" ({source.location})" if source.location else "")


def _samples(sources: Sources) -> str:
    samples: Sequence[int] = sources.asked[1] if sources.asked is not None else ()
    return f"; the batch should have {wording.samples(samples)}" if samples else ""


def _one(functions: Sequence[Function]) -> int | None:
    """Return the index that the loader was reading from the dataset."""
    for function in reversed(functions):
        index = function.variables.get("idx")
        if function.name in ("fetch", "<listcomp>", "__getitems__") and type(index) is int:
            return index
    return None
