"""Values are restored on the device and in the dtype of the script, as are values made of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mothtrap.adapters.torch.replaying.conversion import Conversion, Elsewhere
from mothtrap.core.replays import ReplayPlan
from mothtrap.core.snapshots import Array

X = Array(dtype="float32", shape=(2,), data=np.array([1, 2], np.float32).view(np.uint8))
N = Array(dtype="int64", shape=(1,), data=np.array([3]).view(np.uint8))


def conversion(dtype: str | None = None) -> Conversion:
    plan = ReplayPlan(step=0, workers={}, scratch="", dtype=dtype)
    return Conversion({"x": X, "n": N}, plan)


def test_one_key_is_one_object_within_a_call_and_new_in_the_next() -> None:
    values = conversion()
    one, other = values.made_together({"tensor": "x"}, {"list": [{"tensor": "x"}]})
    assert one is other[0]
    assert values.made({"tensor": "x"}) is not one


def test_floating_point_values_become_the_wanted_type_and_others_do_not() -> None:
    x, n = conversion("float64").made({"list": [{"tensor": "x"}, {"tensor": "n"}]})
    assert (x.dtype, n.dtype) == (torch.float64, torch.int64)
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "made",
    [
        lambda: torch.zeros(2, dtype=torch.float32),
        lambda: torch.zeros(2, dtype=torch.float64).float(),
        lambda: torch.zeros(2, dtype=torch.float64).half(),
        lambda: torch.zeros(2, dtype=torch.float64).to(torch.bfloat16),
        lambda: torch.nn.Linear(2, 2, dtype=torch.float32).weight,
    ],
)
def test_what_the_script_makes_is_of_the_wanted_type(made: object) -> None:
    with Elsewhere(None, torch.float64):
        assert made().dtype == torch.float64  # type: ignore[operator]


def test_what_the_script_moves_goes_to_the_wanted_device() -> None:
    with Elsewhere("cpu", None):
        moved = [
            torch.zeros(2, device="cuda:1"),
            torch.zeros(2).to("cuda"),
            torch.zeros(2).cuda(),
            torch.nn.Linear(2, 2).to(torch.device("cuda")).weight,
        ]
    assert {tensor.device.type for tensor in moved} == {"cpu"}
