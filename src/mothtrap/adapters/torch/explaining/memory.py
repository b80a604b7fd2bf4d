"""Explain out-of-memory errors."""

from __future__ import annotations

import re

import torch

from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.explaining.explanation import Explanation, tensors_of
from mothtrap.adapters.torch.explaining.scene import Scene
from mothtrap.adapters.torch.explaining.sources import Sources

_KNOWN = re.compile(r"out of memory|can't allocate memory|CUBLAS_STATUS_ALLOC_FAILED")
_ASKED = re.compile(r"Tried to allocate ([\d.]+ \w+)|tried to allocate (\d+) bytes")
_HAS = re.compile(r"total capacity of ([\d.]+ \w+) of which ([\d.]+ \w+) is free")


def explain(scene: Scene, sources: Sources) -> Explanation | None:
    """Explain an out-of-memory exception; None for other exceptions."""
    if not _KNOWN.search(scene.message) and not isinstance(scene.error, torch.OutOfMemoryError):
        return None
    asked, has = _ASKED.search(scene.message), _HAS.search(scene.message)
    sentence = _asking(scene, sources)
    sentence += " asked for " + _size(asked[1], asked[2]) if asked else " asked for memory"
    device = "the computer" if "CPUAllocator" in scene.message else "the device"
    sentence += f" that {device} does not have"
    if has is not None:
        sentence += f": {has[2]} of {has[1]} are free"
    given = list(tensors_of(scene))
    if given:
        sentence += "; " + wording.joined([f"{n} is {wording.tensor(t)}" for n, t in given[:4]])
    largest = max((tensor.numel() for _, tensor in given), default=0)
    fixes = [
        "use a smaller batch, and more micro-batches before each optimizer step",
        "use torch.utils.checkpoint for the largest blocks, or torch.autocast",
        "do not keep losses with their graphs across steps: total += loss.item()",
    ]
    if asked is not None and asked[2] and largest and int(asked[2]) > 1000 * largest * 8:
        fixes.insert(
            0,
            "check the sizes in that expression: it requests far more memory than its inputs use",
        )
    return Explanation(
        kind="memory",
        sentence=sentence,
        fixes=tuple(fixes),
        module=scene.innermost.module if scene.innermost is not None else None,
        inputs=wording.inputs_in_words(given),
    )


def _asking(scene: Scene, sources: Sources) -> str:
    """Return a description of the operation that needed the memory."""
    module = sources.named(scene.innermost.module) if scene.innermost is not None else ""
    code = f"`{' '.join(scene.code.split())[:120]}`" if scene.code else "the script"
    if scene.subject is not None:
        return module
    return f"{code} in {module}" if module else code


def _size(words: str | None, count: str | None) -> str:
    if words is not None:
        return words
    size = float(count or 0)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} PiB"
