"""A folder with one safetensors file for each step with completely captured tensors.

`w<rank>/step-<step>.safetensors`, for evaluations `w<rank>/eval-<step>-<mode_step>.safetensors`.
Tensors are named `kind:name`, and keep their type and bits. The file's metadata contain run,
attempt, worker, step, mode and mode_step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from mothtrap.core.errors import DamagedDataError
from mothtrap.core.steps import Mode, StepKey
from mothtrap.exports._choice import Choice, Written
from mothtrap.exports._steps import Whole, wholes
from mothtrap.reader.run import Run

FOREIGN = frozenset({"complex32", "complex128", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"})
"""Types that the format does not have."""


def write(run: Run, target: Path, choice: Choice) -> Written:
    """Write the files; see `mothtrap.exports`."""
    left_out: dict[str, None] = {}
    files = tensors = 0
    for worker in run.workers:
        folder = target / f"w{worker}"
        folder.mkdir(parents=True)
        kept = wholes(run, worker, choice, left_out)
        for (attempt, key), group in groupby(kept, key=_moment):
            arrays = dict(_arrays(group, left_out))
            if arrays:
                about = {
                    "run": run.id,
                    "attempt": str(attempt),
                    "worker": str(worker),
                    "step": str(key.step),
                    "mode": key.mode.value,
                    "mode_step": str(key.mode_step),
                }
                save_file(arrays, folder / _name(key), metadata=about)
                files, tensors = files + 1, tensors + len(arrays)
    if not tensors and not any(tensor.raw_keys() for tensor in run.tensors()):
        said = "no values were captured of any tensor; use a collection that has raw = true"
        left_out[said] = None
    return Written(counts={"tensors": tensors, "files": files}, left_out=tuple(left_out))


def _name(key: StepKey) -> str:
    if key.mode is Mode.TRAIN:
        return f"step-{key.step:08d}.safetensors"
    return f"{key.mode.value}-{key.step:08d}-{key.mode_step:08d}.safetensors"


def _moment(whole: Whole) -> tuple[int, StepKey]:
    return whole.attempt, whole.row.key


def _arrays(
    group: Iterator[Whole], left_out: dict[str, None]
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Return the tensors of a moment by name; a repeated name gets a number."""
    seen: dict[str, int] = {}
    for whole in group:
        identity = whole.tensor.identity
        if whole.row.dtype in FOREIGN:
            left_out[f"{identity} is {whole.row.dtype}, which safetensors does not have"] = None
            continue
        try:
            values = whole.values()
        except DamagedDataError as err:
            left_out[str(err)] = None
            continue
        seen[identity] = seen.get(identity, 0) + 1
        name = identity if seen[identity] == 1 else f"{identity}#{seen[identity]}"
        yield name, np.ascontiguousarray(values).reshape(values.shape)
