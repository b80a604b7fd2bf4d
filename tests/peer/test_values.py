"""Values, types, statistics and shapes are read back bit for bit."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from tests.peer.trainings import UNJUDGED, classifier, parameter, trained
from torch import nn

from mothtrap import Collection, Watch
from mothtrap.core.steps import Mode

EVERYTHING = ("weights", "biases", "gradients", "inputs", "outputs", "activations")
TYPES = [
    *(torch.bool, torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32),
    *(torch.int64, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2),
]


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def of_type(dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor with the smallest and the largest bit pattern of a type."""
    if dtype is torch.bool:
        return torch.tensor([[True, False], [False, True]])
    size = torch.empty(0, dtype=dtype).element_size()
    patterns = torch.tensor([0x00, 0xFF, 0x80, 0x7F, 0x01, 0x3C], dtype=torch.uint8)
    return patterns.repeat_interleave(size).view(dtype).reshape(2, 3)


def test_values_of_every_type_come_back_with_their_type(tmp_path: Path) -> None:
    values = {str(dtype).removeprefix("torch."): of_type(dtype) for dtype in TYPES}

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        for name, value in values.items():
            dbg.log_tensor(name, value)

    run = trained(tmp_path, 1, each, **UNJUDGED)
    for name, value in values.items():
        tensor = run.tensor(f"metric:{name}")
        read = tensor.at(0)
        assert (read.tobytes(), read.shape) == (bits(value), tuple(value.shape)), name
        assert read.dtype.name == tensor.dtype == name


def test_signed_bytes_stay_signed_and_half_precision_stays_itself(tmp_path: Path) -> None:
    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        dbg.log_tensor("bytes", torch.tensor([-1, -128, 127], dtype=torch.int8))
        dbg.log_tensor("brain", torch.tensor([1.5, float("nan")], dtype=torch.bfloat16))
        dbg.log_tensor("words", np.array([65535], np.uint16))

    run = trained(tmp_path, 1, each, **UNJUDGED)
    assert run.tensor("metric:bytes").at(0).tolist() == [-1, -128, 127]
    brain = run.tensor("metric:brain").at(0)
    assert brain.dtype == ml_dtypes.bfloat16
    assert np.array_equal(brain.astype(np.float32), [1.5, np.nan], equal_nan=True)
    assert run.tensor("metric:words").at(0).tolist() == [65535]


def test_a_model_in_bfloat16_trains_and_is_read_as_it_was(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        seen.append(bits(parameter(model, "2.weight").data))

    raw = {"weights": Collection(raw=True), "gradients": Collection(statistics=("l2",))}
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(torch.bfloat16)

    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x.to(torch.bfloat16)).float()

    def each_cast(step: int, outer: nn.Module, dbg: Watch) -> None:
        each(step, model, dbg)

    run = trained(tmp_path, 3, each_cast, model=Cast(), collections=raw)
    weight = run.tensor("weight:body.2.weight")
    assert [array.tobytes() for _, array in weight.values()] == seen
    assert weight.at(0).dtype == ml_dtypes.bfloat16
    assert run.tensor("gradient:body.2.weight").history("l2").steps_S.tolist() == [0, 1, 2]


def test_parameters_gradients_inputs_and_outputs_are_those_of_the_program(tmp_path: Path) -> None:
    seen: dict[int, dict[str, bytes]] = {}
    model = classifier()
    now: dict[str, bytes] = {}
    model.register_forward_hook(
        lambda module, args, output: now.update(input=bits(args[0]), output=bits(output))
    )
    model[1].register_forward_hook(lambda module, args, output: now.update(hidden=bits(output)))

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        for name, value in model.named_parameters():
            now[name] = bits(value.data)
            assert value.grad is not None
            now[f"gradient:{name}"] = bits(value.grad)
        seen[step] = dict(now)

    raw = {name: Collection(raw=True) for name in EVERYTHING}
    run = trained(tmp_path, 4, each, model=model, collections=raw)
    names = {
        "input": "input:Sequential.0",
        "output": "output:Sequential",
        "hidden": "activation:1",
        **{name: f"weight:{name}" for name in ("0.weight", "2.weight")},
        **{name: f"bias:{name}" for name in ("0.bias", "2.bias")},
    }
    for step, values in seen.items():
        read = {name: run.tensor(names.get(name, name)).at(step).tobytes() for name in values}
        assert read == values


def test_a_watched_model_stays_picklable(tmp_path: Path) -> None:
    copies: list[Any] = []

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        copies.append(pickle.loads(pickle.dumps(model)))

    trained(tmp_path, 1, each, collections={"activations": Collection(raw=True)})
    assert copies[0](torch.ones(1, 4)).shape == (1, 3)


@dataclass
class Answer:
    """An output type that many models return instead of a tensor."""

    logits: torch.Tensor
    hidden: tuple[torch.Tensor, ...]


class Answering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)
        self.asks = False

    def forward(self, x: torch.Tensor) -> Any:
        hidden = self.body(x)
        answer = Answer(logits=self.head(hidden), hidden=(hidden,))
        return {"answer": answer} if self.asks else answer


@pytest.mark.parametrize("asks", [False, True], ids=["dataclass", "dictionary"])
def test_outputs_in_dataclasses_and_dictionaries_are_seen(tmp_path: Path, asks: bool) -> None:
    model = Answering()
    model.asks = asks

    def loss_of(output: Any, target: torch.Tensor) -> torch.Tensor:
        answer = output["answer"] if asks else output
        return nn.functional.cross_entropy(answer.logits, target)

    outputs = {"outputs": Collection(raw=True)}
    run = trained(tmp_path, 2, model=model, loss_of=loss_of, collections=outputs)
    path = "Answering.answer" if asks else "Answering"
    assert run.tensor(f"output:{path}.logits").at(1).shape == (16, 3)
    assert run.tensor(f"output:{path}.hidden.0").at(1).shape == (16, 8)


def test_statistics_and_shapes_are_those_that_numpy_gives(tmp_path: Path) -> None:
    seen: list[np.ndarray[Any, Any]] = []

    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        gradient = parameter(model, "0.weight").grad
        assert gradient is not None
        seen.append(gradient.numpy().copy())

    chosen = {
        "gradients": Collection(
            statistics=("all",),
            reductions={
                "median": lambda array: float(np.median(array)),
                "prod": lambda array: float(np.prod(array)),
                "abs_std": lambda array: float(np.abs(array).std()),
            },
        ),
        "weights": Collection(shape_only=True),
    }
    run = trained(tmp_path, 4, each, collections=chosen)
    gradient = run.tensor("gradient:0.weight")
    for step, array in enumerate(seen):
        found, exact = gradient.statistics(step), array.astype(np.float64)
        expected = {
            "min": exact.min(),
            "max": exact.max(),
            "mean": exact.mean(),
            "std": exact.std(),
            "l2": np.linalg.norm(exact),
            "abs_mean": np.abs(exact).mean(),
            "abs_max": np.abs(exact).max(),
            "zero": (exact == 0).sum(),
            "nan": 0,
            "inf": 0,
        }
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-6)
    for name, function in chosen["gradients"].reductions.items():
        (series,) = run.scalars(f"{name}:gradient:0.weight")
        assert series.values_S.tolist() == pytest.approx([function(array) for array in seen])
    assert run.tensor("weight:0.weight").shape == (8, 4)


def test_nan_and_infinities_are_counted_and_stay_what_they_are(tmp_path: Path) -> None:
    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        gradient = parameter(model, "0.weight").grad
        assert gradient is not None
        gradient[0, 0], gradient[1, 1], gradient[2, 2] = float("nan"), float("inf"), -float("inf")

    chosen = {"gradients": Collection(raw=True, statistics=("all",))}
    run = trained(tmp_path, 1, each, lr=0.0, collections=chosen)
    gradient = run.tensor("gradient:0.weight")
    found, array = gradient.statistics(0), gradient.at(0)
    assert (found["nan"], found["inf"]) == (1, 2)
    assert (np.isnan(array).sum(), np.isinf(array).sum()) == (1, 2)
    assert np.isfinite(found["mean"])


def test_values_of_modes_are_kept_apart(tmp_path: Path) -> None:
    def each(step: int, model: nn.Module, dbg: Watch) -> None:
        with torch.no_grad():
            model(torch.full((2, 4), float(step)))

    chosen = {"inputs": Collection(raw=True, modes=("train", "eval"))}
    run = trained(tmp_path, 3, each, collections=chosen)
    given = run.tensor("input:Sequential.0")
    assert [key.step for key in given.raw_keys(Mode.TRAIN)] == [0, 1, 2]
    for key in given.raw_keys(Mode.EVAL):
        assert given.at(key).tolist() == [[float(key.mode_step)] * 4] * 2
    assert given.at(2, "train").shape == (16, 4)
    assert given.at(2, "eval").shape == (2, 4)
