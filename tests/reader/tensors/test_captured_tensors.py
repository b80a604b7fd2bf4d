from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from tests.reader.runs import closing, evaluation, info, key, raw, write_worker
from tests.store.records import record

from mothtrap.core.errors import (
    DamagedDataError,
    StepNotYetError,
    StepUnavailableError,
    UnknownNameError,
)
from mothtrap.core.facts.modules import ShapeChanged
from mothtrap.core.runs import RunEnd
from mothtrap.core.steps import Mode
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.run import Run, open_run
from mothtrap.reader.tensors import kept
from mothtrap.statistics.dtypes import NAMES, dtype_of
from mothtrap.statistics.numpy import summarize
from mothtrap.statistics.summary import STATISTICS, derive
from mothtrap.store import layout

Array = npt.NDArray[np.generic]
WEIGHT = TensorInfo(
    kind="weight",
    name="fc.weight",
    module="fc",
    module_type="Linear",
    shape=(2, 3),
    dtype="float32",
    location="model.py:3",
)
GRADIENT = TensorInfo(kind="gradient", name="fc.weight", module="fc", shape=(2, 3))
DEFINED = ((0, WEIGHT), (7, GRADIENT))
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def values(step: int) -> Array:
    return VALUES + np.float32(step)


def run_with_values(folder: Path, *more: object) -> Run:
    """Store a run: weights whole at even steps of 6, gradients never, evaluations before step 4."""
    attempt = layout.create_run(folder / "x", info())
    write_worker(
        attempt,
        *(
            record(
                step,
                defined=DEFINED if step == 0 else (),
                tensors=1,
                raw=(raw((0, values(step))),) if step % 2 == 0 else (),
            )
            for step in range(4)
        ),
        *(evaluation(4, n, tensors=0, raw=(raw((0, values(100 + n))),)) for n in range(3)),
        record(4, tensors=1, raw=(raw((0, values(4))),)),
        record(5, tensors=1),
        *more,  # type: ignore[arg-type]
    )
    return open_run(folder / "x")


def test_a_tensor_tells_what_it_is(tmp_path: Path) -> None:
    tensor = run_with_values(tmp_path).tensor("fc.weight")
    assert (tensor.name, tensor.kind, tensor.identity) == (
        "fc.weight",
        "weight",
        "weight:fc.weight",
    )
    assert (tensor.module, tensor.shape, tensor.dtype) == ("fc", (2, 3), "float32")
    assert (tensor.location, tensor.workers) == ("model.py:3", (0,))
    assert repr(tensor) == "<Tensor weight:fc.weight: float32 2x3>"


@pytest.mark.parametrize("name", NAMES)
def test_values_come_back_bit_by_bit_in_every_type(tmp_path: Path, name: str) -> None:
    dtype = dtype_of(name)
    bits = np.arange(64, dtype=np.uint8) * 3
    array = bits % 2 > 0 if name == "bool" else bits.view(dtype)
    attempt = layout.create_run(tmp_path / "x", info())
    item = record(0, defined=DEFINED, tensors=1, raw=(raw((0, array.reshape(2, -1))),))
    write_worker(attempt, item)
    found = open_run(tmp_path / "x").tensor("fc.weight").at(0)
    assert (found.dtype, found.shape) == (dtype, array.reshape(2, -1).shape)
    assert found.tobytes() == array.tobytes()
    assert found.flags.writeable


def test_bfloat16_is_its_own_type(tmp_path: Path) -> None:
    array = np.array([1.5, math.nan, -math.inf], ml_dtypes.bfloat16)
    attempt = layout.create_run(tmp_path / "x", info())
    write_worker(attempt, record(0, defined=DEFINED, tensors=1, raw=(raw((0, array)),)))
    found = open_run(tmp_path / "x").tensor("fc.weight").at(0)
    assert found.dtype == ml_dtypes.bfloat16
    assert found.astype(np.float32).tolist()[0] == 1.5
    assert np.isnan(found[1])


def test_values_are_those_of_the_step_asked_for(tmp_path: Path) -> None:
    tensor = run_with_values(tmp_path).tensor("fc.weight")
    for step in (0, 2, 4):
        assert np.array_equal(tensor.at(step), values(step))
        assert np.array_equal(tensor.at(key(step)), values(step))
    assert tensor.shape_at(2) == (2, 3)
    assert tensor.raw_keys(Mode.TRAIN) == (key(0), key(2), key(4))
    moments = tensor.raw_keys(Mode.EVAL)
    assert moments == tuple(key(4, Mode.EVAL, n) for n in range(3))
    for n, moment in enumerate(moments):
        assert np.array_equal(tensor.at(moment), values(100 + n))
    everything = dict(tensor.values())
    assert len(everything) == 6
    assert np.array_equal(everything[key(2)], values(2))


@pytest.mark.parametrize("ahead", [1, 2, 6, 64])
def test_all_values_come_in_order_however_many_are_asked_for_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    tensor = run_with_values(tmp_path).tensor("fc.weight")
    monkeypatch.setattr(kept, "AHEAD", ahead)
    found = list(tensor.values())
    assert tuple(moment for moment, _ in found) == tensor.raw_keys()
    assert all(np.array_equal(array, tensor.at(moment)) for moment, array in found)


def test_an_evaluation_of_many_batches_is_not_guessed(tmp_path: Path) -> None:
    tensor = run_with_values(tmp_path).tensor("fc.weight")
    with pytest.raises(StepUnavailableError, match=r"3 moments of mode eval.*mode_step 0 to 2"):
        tensor.at(4, Mode.EVAL)


def test_a_step_without_values_names_those_with(tmp_path: Path) -> None:
    run = run_with_values(tmp_path)
    with pytest.raises(StepUnavailableError, match="at step 3; they were at 3 steps from 0 to 4"):
        run.tensor("fc.weight").at(3)
    with pytest.raises(
        StepUnavailableError, match=r"no values of gradient:fc.weight were captured"
    ):
        run.tensor("gradient:fc.weight").at(3)
    with pytest.raises(StepNotYetError, match="the job has not reached it"):
        run.tensor("fc.weight").at(6)
    with pytest.raises(StepUnavailableError, match=r"captured in steps 0 to 1, so .* for step 3"):
        run.range(0, 2).tensor("gradient:fc.weight").at(3)
    with pytest.raises(StepUnavailableError, match="mode eval; they were at step 4, the nearest"):
        run.tensor("fc.weight").at(2, "eval")
    with pytest.raises(
        StepUnavailableError, match=r"mode predict.*; in other modes, they were captured at"
    ):
        run.tensor("fc.weight").at(2, "predict")
    with pytest.raises(UnknownNameError, match=r"worker 3 has no weight:fc.weight"):
        run.tensor("fc.weight").at(0, worker=3)


def test_after_the_end_no_step_is_still_to_come(tmp_path: Path) -> None:
    run = run_with_values(tmp_path, closing(6))
    layout.write_end(run.path / "1", RunEnd(exit_code=0, ended_s=1.0))
    run.refresh()
    with pytest.raises(StepUnavailableError, match="the nearest is 4") as caught:
        run.tensor("fc.weight").at(6)
    assert not isinstance(caught.value, StepNotYetError)


def test_statistics_are_those_captured_or_else_those_of_the_values(tmp_path: Path) -> None:
    run = run_with_values(tmp_path)
    weight = run.tensor("fc.weight")
    assert weight.statistics(3)["l2"] == 3.0 + 9  # as `record` makes them
    found = weight.statistics(key(4, Mode.EVAL, 1))
    array = values(101).astype(np.float64)
    assert found["count"] == 6
    assert found["mean"] == pytest.approx(array.mean())
    assert found["std"] == pytest.approx(array.std())
    assert "update_ratio" not in found
    with pytest.raises(StepUnavailableError):
        run.tensor("gradient:fc.weight").statistics(3)


def test_a_history_is_that_of_the_statistics_or_else_of_the_values(tmp_path: Path) -> None:
    weight = run_with_values(tmp_path).tensor("fc.weight")
    series = weight.history("l2")
    assert (series.name, series.of) == ("l2", "weight:fc.weight")
    assert series.steps_S.tolist() == [0, 1, 2, 3, 4, 5]
    assert series.values_S.tolist() == [9.0, 10.0, 11.0, 12.0, 13.0, 14.0]
    assert weight.steps().tolist() == [0, 1, 2, 3, 4, 5]
    assert weight.steps(Mode.EVAL).tolist() == [4]
    evaluated = weight.history("max", Mode.EVAL)
    assert evaluated.steps_S.tolist() == [4, 4, 4]
    assert evaluated.values_S.tolist() == [105.0, 106.0, 107.0]
    with pytest.raises(UnknownNameError, match="no statistic 'l3'"):
        weight.history("l3")


def test_a_restart_replaces_values_too(tmp_path: Path) -> None:
    run = run_with_values(tmp_path)
    second = layout.create_attempt(tmp_path / "x", info(attempt=2))
    # Another process gets another id.
    write_worker(
        second,
        record(3, defined=((4, WEIGHT),), tensors=0, raw=(raw((4, values(33))),)),
        record(4, tensors=0, raw=(raw((4, values(44))),)),
    )
    run.refresh()
    weight = run.tensor("fc.weight")
    assert np.array_equal(weight.at(2), values(2))
    assert np.array_equal(weight.at(3), values(33))
    assert np.array_equal(weight.at(4), values(44))
    assert [k.step for k in weight.raw_keys(Mode.TRAIN)] == [0, 2, 3, 4]
    assert weight.history("l2").steps_S.tolist() == [0, 1, 2]


def test_each_worker_has_values_of_its_own(tmp_path: Path) -> None:
    run = run_with_values(tmp_path)
    write_worker(run.path / "1", record(0, defined=DEFINED, tensors=0, raw=(raw((0, values(50))),)))
    run.refresh()
    weight = run.tensor("fc.weight")
    assert weight.workers == (0, 1)
    assert np.array_equal(weight.at(0), values(0))
    assert np.array_equal(weight.at(0, worker=1), values(50))
    assert weight.steps(worker=1).tolist() == [0]


def test_a_damaged_value_is_named_and_never_returned(tmp_path: Path) -> None:
    run = run_with_values(tmp_path)
    path = next((run.path / "1" / "w0").glob("raw-*"))
    whole = path.read_bytes()
    at = whole.index(values(2).tobytes())
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    weight = run.tensor("fc.weight")
    with pytest.raises(DamagedDataError, match="step 2"):
        weight.at(2)
    assert np.array_equal(weight.at(4), values(4))


def accumulated(folder: Path) -> Run:
    """Step 0 with one copy, step 1 with one copy from each of three micro-batches."""
    attempt = layout.create_run(folder / "x", info())
    write_worker(
        attempt,
        record(0, defined=DEFINED, tensors=0, raw=(raw((0, values(0))),)),
        record(1, tensors=0, raw=(raw(*((0, values(n)) for n in (10, 20))), raw((0, values(30))))),
    )
    return open_run(folder / "x")


def test_copies_of_micro_batches_are_not_guessed(tmp_path: Path) -> None:
    weight = accumulated(tmp_path).tensor("fc.weight")
    for read in (weight.at, weight.shape_at):
        with pytest.raises(StepUnavailableError, match=r"step 1 has 3 copies .* copy=0 to copy=2"):
            read(1)
        with pytest.raises(StepUnavailableError, match=r"no copy 3 of .*: that step has 3"):
            read(1, copy=3)
    assert [weight.at(1, copy=n)[0, 0] for n in (0, 1, 2, -1)] == [10, 20, 30, 30]
    assert [key.step for key, _ in weight.values()] == [0, 1, 1, 1]
    assert weight.raw_keys() == (key(0), key(1))
    assert np.array_equal(weight.at(0), weight.at(0, copy=0))


@pytest.mark.parametrize("statistic", sorted(STATISTICS))
def test_statistics_of_copies_are_those_of_all_together(tmp_path: Path, statistic: str) -> None:
    weight = accumulated(tmp_path).tensor("fc.weight")
    together = summarize([np.concatenate([values(n) for n in (10, 20, 30)])], (statistic,))
    (wanted,) = derive(together, statistic)
    history = weight.history(statistic)
    assert history.steps_S.tolist() == [0, 1]
    np.testing.assert_allclose(history.values_S[1], wanted, rtol=1e-12)
    if statistic in weight.statistics(1):
        np.testing.assert_allclose(weight.statistics(1)[statistic], wanted, rtol=1e-12)


def test_shapes_that_were_followed_can_be_read_at_every_step_with_them(tmp_path: Path) -> None:
    attempt = layout.create_run(tmp_path / "x", info())

    def told(step: int, *shape: int) -> ShapeChanged:
        return ShapeChanged(step=step, tensor="weight:fc.weight", shape=shape)

    write_worker(
        attempt,
        record(0, defined=DEFINED, tensors=1, observations=(told(0, 2, 3),)),
        record(1, tensors=1),
        record(2, tensors=1, observations=(told(2, 4, 3),)),
        record(3, tensors=1),
        record(4, tensors=0),
        closing(5),
    )
    tensor = open_run(tmp_path / "x").tensor("fc.weight")
    assert tensor.steps().tolist() == [0, 1, 2, 3]
    assert [tensor.shape_at(step) for step in range(4)] == [(2, 3), (2, 3), (4, 3), (4, 3)]
    with pytest.raises(StepUnavailableError, match="shape_at"):
        tensor.at(1)
    with pytest.raises(StepUnavailableError):
        tensor.shape_at(4)
