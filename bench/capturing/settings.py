"""Settings of mothtrap that are measured, and the settings that each is compared with."""

from __future__ import annotations

from typing import Any

PARAMETERS = {"tensors": ["gradient:*", "weight:*", "bias:*"]}

SETTINGS: dict[str, dict[str, Any]] = {
    "idle": {"capture": "off"},
    "guard and ring": {"capture": "off"},
    "default": {},
    "all gradients and weights": {"overhead": 0.0, "collections": {"all": PARAMETERS}},
    "everything": {"overhead": 0.0, "capture": "everything"},
    "raw gradients and weights": {
        "overhead": 0.0,
        "on_full": "block",
        "collections": {"all": {**PARAMETERS, "raw": True}},
    },
}
MEANING = {
    "idle": "attached, and nothing is due",
    "guard and ring": "nothing, but every step is judged by the guard, and its inputs are kept "
    "for a replay",
    "default": "what each does when nothing is set",
    "all gradients and weights": "statistics of all of them, at every step, without a limit",
    "everything": "the same, and of the outputs of all modules",
    "raw gradients and weights": "their values, at every step",
}
WITH_RING = "guard and ring"
RAW = "raw gradients and weights"

FLOORS = {
    "idle": ("nothing",),
    "guard and ring": ("norm",),
    "default": ("norm",),
    "all gradients and weights": ("read",),
    "everything": ("read",),
    "raw gradients and weights": ("memcpy", "copy and write"),
}
FLOOR = "floor: "
"""Prefix of the name of a floor, in the column of tools."""

MODELS = ("mlp", "digits", "lstm", "resnet", "resnet_fresh", "gpt", "gpt30m")
STEPS = {"mlp": 200, "digits": 50, "lstm": 1, "resnet": 1, "resnet_fresh": 1, "gpt": 1, "gpt30m": 1}
"""Steps on either side of a pair: a step of the perceptron alone is shorter than its jitter."""
WARM_UP_STEPS = {
    "mlp": 2400,
    "digits": 2400,
    "lstm": 300,
    "resnet": 300,
    "resnet_fresh": 100,
    "gpt": 300,
    "gpt30m": 80,
}
"""Long enough for the closer inspection of the first steps: targets until step 256, everything in
jobs of short steps until step 2,000."""
RAW_WARM_UP_STEPS = 10
"""Raw tensors fill a disk, and their first steps cost as much as later steps."""

PEERS = ("smdebug", "wandb", "tensorboard", "torch_audit", "trainscope")
"""Each has `bench/peers/<name>.txt` and `bench/peers/<name>_capture.py`."""


def warm_up_steps(model: str, setting: str) -> int:
    """Number of steps before the first measured step."""
    return RAW_WARM_UP_STEPS if setting == RAW else WARM_UP_STEPS[model]
