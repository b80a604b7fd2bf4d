from __future__ import annotations

from typing import Any

import numpy as np

from mothtrap.core.snapshots import (
    Array,
    BatchHanded,
    ForwardCalled,
    LossCalled,
    RecordedStep,
    ReferenceDigests,
    Snapshot,
)


def array(values: Any, dtype: str = "") -> Array:
    found = np.asarray(values)
    data = np.frombuffer(found.tobytes(), np.uint8)
    return Array(dtype=dtype or found.dtype.name, shape=found.shape, data=data)


def recorded(step: int, *losses: float) -> RecordedStep:
    return RecordedStep(
        step=step,
        events=(
            BatchHanded(loader=0, site="train.py:7", value={"list": [{"tensor": f"{step}/0"}]}),
            ForwardCalled(root="Net", site="train.py:8", args={"tuple": []}, kwargs={"dict": []}),
            LossCalled(site="train.py:9", function="mse_loss", args=None),
        ),
        optimizers=("SGD",),
        losses=losses,
        missing=("the global rng of CuPy",),
    )


def snapshot(step: int = 3, **changes: Any) -> Snapshot:
    values: dict[str, Any] = {
        "run": "x",
        "attempt": 1,
        "worker": 0,
        "step": step,
        "state_step": step,
        "reason": "nonfinite",
        "created_s": 1e9,
        "command": ("python", "train.py"),
        "cwd": "/tmp",
        "python": "3.11",
        "framework": "torch",
        "versions": {"torch": "2"},
        "steps": (recorded(step, float("nan"), 1.5, float("-inf")),),
        "truth": ReferenceDigests(
            losses={"train.py:10": "ab"}, gradients={"w": "cd"}, values=(float("inf"), -1.5)
        ),
        "lines": {"train.py": (7, 0)},
        "state": {"dict": [["w", {"tensor": "weight:w"}]]},
    }
    return Snapshot(**(values | changes))


STATE = {"weight:w": array(np.arange(6, dtype=np.float32).reshape(2, 3))}
STEPS = {"3/0": array([1, 2, 3])}
