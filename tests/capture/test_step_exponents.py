"""Counts by power of two on their way from the tensors to the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.capture.recording import Job
from tests.capture.test_reductions import stored

from mothtrap.capture.selection import of_collection
from mothtrap.core.collections import Collection
from mothtrap.core.facts.captures import Thinned
from mothtrap.core.records import StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.statistics.exponents import count_exponents
from mothtrap.statistics.summary import WIDTH


def job(tensors: str = "gradients", **fields: Any) -> Job:
    asked = Collection(tensors=(tensors,), statistics=("exponents",), every=1, **fields)
    return Job(of_collection("mine", asked))


def counts(record: StepRecord, number: int) -> np.ndarray:
    return stored(record)[number]


def test_counts_are_stored_as_tensors_of_their_own() -> None:
    made = job()
    ids = [made.gradient("a"), made.gradient("b")]
    made.recorder.captures.reduce("gradient", ids, [[1.0, -2.0, 0.0], [8.0]])
    record = made.close(0)
    names = {info.name: (number, info) for number, info in record.defined}
    number, info = names["exponents(gradient:a)"]
    assert (info.kind, info.shape, info.dtype) == ("metric", (2, 64), "int64")
    assert np.array_equal(counts(record, number), count_exponents(np.array([1.0, -2.0])))
    assert counts(record, names["exponents(gradient:b)"][0])[1, 43] == 1
    assert record.summary_TF.shape == (2, WIDTH)
    assert set(record.tensor_T.tolist()) == set(ids)


def test_micro_batches_add_up() -> None:
    made = job("activations")
    number = made.recorder.tensors.define(TensorInfo(kind="activation", name="0"))
    for values in ([1.0, 4.0], [-1.0], [1.5]):
        made.recorder.captures.begin_forward()
        made.recorder.captures.reduce("activation", [number], [values])
        made.recorder.captures.commit_forward(StepKey(step=0, mode=Mode.TRAIN, mode_step=0))
    record = made.close(0)
    assert len(stored(record)) == 1
    assert np.array_equal(
        counts(record, number + 1), count_exponents(np.array([1.0, 4.0, -1.0, 1.5]))
    )
    assert stored(made.close(1)) == {}


def test_a_forward_that_never_returned_leaves_nothing() -> None:
    made = job("activations")
    number = made.recorder.tensors.define(TensorInfo(kind="activation", name="0"))
    made.recorder.captures.begin_forward()
    made.recorder.captures.reduce("activation", [number], [[1.0]])
    made.recorder.captures.begin_forward()
    made.recorder.captures.commit_forward(StepKey(step=0, mode=Mode.TRAIN, mode_step=0))
    assert stored(made.close(0)) == {}


def test_an_evaluation_has_counts_of_its_own() -> None:
    made = job("activations", modes=("train", "eval"))
    number = made.recorder.tensors.define(TensorInfo(kind="activation", name="0"))
    made.close(0)
    made.recorder.captures.begin_forward()
    made.recorder.captures.reduce("activation", [number], [[1.0, 2.0]])
    made.recorder.captures.commit_forward(StepKey(step=1, mode=Mode.EVAL, mode_step=0))
    evaluated = made.sink.records[-1]
    assert evaluated.key.mode is Mode.EVAL
    assert counts(evaluated, number + 1).sum() == 2
    assert stored(made.close(1)) == {}


@pytest.mark.parametrize("every", [1, 2])
def test_nothing_is_counted_when_it_is_not_due(every: int) -> None:
    asked = Collection(tensors=("gradients",), statistics=("exponents",), every=every)
    made = Job(of_collection("mine", asked))
    number = made.gradient()
    for step in range(4):
        made.recorder.captures.reduce("gradient", [number], [[1.0]])
        made.close(step)
    assert made.arithmetic.calls.count("count_exponents_of") == 4 // every


def test_what_counting_costs_is_charged_to_who_asked_for_it() -> None:
    streams = of_collection(
        "mine",
        Collection(
            tensors=("gradients",), statistics=("mean", "exponents"), every=1, overhead=0.02
        ),
    )
    made = Job(streams, overhead=0.02)
    number = made.gradient()
    made.arithmetic.cost_s = 0.05  # of a step of half a second
    for step in range(200):
        made.recorder.captures.reduce("gradient", [number], [[1.0]])
        made.close(step)
    facts = [fact for record in made.sink.records for fact in record.observations]
    shed = {fact.what for fact in facts if isinstance(fact, Thinned)}
    assert "exponents of collection mine" in shed
    assert 0 < made.arithmetic.calls.count("count_exponents_of") < 100
