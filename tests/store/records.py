"""Step records for tests: hand-made ones and a hypothesis strategy."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from mothtrap.core.facts.captures import Blind
from mothtrap.core.facts.losses import LossSeries
from mothtrap.core.facts.workers import WorkerEnded
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo

WIDTH = 13


def record(step: int, *, tensors: int = 3, width: int = WIDTH, **changes: object) -> StepRecord:
    """Return a record whose numbers follow from its step."""
    values: dict[str, object] = {
        "key": StepKey(step=step, mode_step=step),
        "wall_s": 1e9 + step / 8,
        "optimizers": ("adam",),
        "defined": tuple(
            (i, TensorInfo(kind="gradient", name=f"layer{i}", shape=(2, i))) for i in range(tensors)
        )
        if step == 0
        else (),
        "tensor_T": np.arange(tensors, dtype=np.uint32),
        "summary_TF": step + np.arange(tensors * width, dtype=np.float64).reshape(tensors, width),
        "scalars": (Scalar("loss", "main", 1.0 / (step + 1)), Scalar("step_s", "", 0.5)),
    }
    return StepRecord(**(values | changes))  # type: ignore[arg-type]


def plain(item: StepRecord) -> tuple[object, ...]:
    """Return a record as a value that compares bit for bit, NaN included."""
    return (
        item.key,
        repr(item.wall_s),
        item.optimizers,
        item.skipped,
        item.defined,
        item.tensor_T.dtype.str,
        item.tensor_T.tobytes(),
        item.summary_TF.shape,
        item.summary_TF.tobytes(),
        tuple((s.name, s.of, np.float64(s.value).tobytes()) for s in item.scalars),
        tuple(repr(o) for o in item.observations),
    )


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.floats(width=64)
keys = st.builds(
    StepKey,
    step=st.integers(0, 2**40),
    mode=st.sampled_from(Mode),
    mode_step=st.integers(0, 2**40),
)
tensor_infos = st.builds(
    TensorInfo,
    kind=st.sampled_from(["weight", "gradient", "activation"]),
    name=texts,
    module=texts,
    role=st.sampled_from(["", "rectifier"]),
    shape=st.lists(st.integers(0, 2**31), max_size=3).map(tuple),
    location=st.none() | texts,
)
observations = st.one_of(
    st.builds(LossSeries, step=st.integers(0, 99), series=texts, location=st.none() | texts),
    st.builds(Blind, step=st.integers(0, 99), what=texts, reason=texts),
    st.builds(
        WorkerEnded, step=st.integers(0, 99), steps=st.just(3), own_s=numbers, wall_s=numbers
    ),
)


@st.composite
def records(draw: st.DrawFn) -> StepRecord:
    """Generate any record that an adapter could pass."""
    tensors, width = draw(st.integers(0, 4)), draw(st.sampled_from([1, WIDTH]))
    values = draw(st.lists(numbers, min_size=tensors * width, max_size=tensors * width))
    return StepRecord(
        key=draw(keys),
        wall_s=draw(st.floats(0, 1e12)),
        optimizers=tuple(draw(st.lists(texts, max_size=2))),
        skipped=draw(st.booleans()),
        defined=tuple(draw(st.lists(st.tuples(st.integers(0, 99), tensor_infos), max_size=2))),
        tensor_T=np.array(
            draw(st.lists(st.integers(0, 2**32 - 1), min_size=tensors, max_size=tensors)), np.uint32
        ),
        summary_TF=np.array(values, np.float64).reshape(tensors, width),
        scalars=tuple(draw(st.lists(st.builds(Scalar, texts, texts, numbers), max_size=3))),
        observations=tuple(draw(st.lists(observations, max_size=2))),
    )
