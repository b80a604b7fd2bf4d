from __future__ import annotations

import math
import time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reader.runs import closing
from tests.store.records import record

from mothtrap.core.facts.captures import Blind
from mothtrap.core.facts.losses import LossCall, LossSeries
from mothtrap.core.needs import Need
from mothtrap.core.records import Scalar, StepRecord
from mothtrap.core.steps import Mode, StepKey
from mothtrap.core.tensors import TensorInfo
from mothtrap.core.window import Window
from mothtrap.reader.series.windows import (
    FIRST_OBSERVATIONS,
    LATEST_OBSERVATIONS,
    PAUSE_S,
    WindowBuilder,
)
from mothtrap.statistics.summary import FIELDS, WIDTH

KINDS = ("gradient", "activation", "weight")
ROLES = ("", "rectifier", "saturating")
EVERY_INPUT = Need(kinds=("input",), statistics=("mean",))


def row(**fields: float) -> np.ndarray:
    values = np.full(WIDTH, np.nan)
    for name, value in fields.items():
        values[FIELDS.index(name)] = value
    return values


@st.composite
def jobs(draw: st.DrawFn) -> list[StepRecord]:
    """Generate a training: tensors appear, are absent, hold NaN; evaluations lie in between."""
    infos = [
        TensorInfo(
            kind=draw(st.sampled_from(KINDS)), name=f"t{i}", role=draw(st.sampled_from(ROLES))
        )
        for i in range(draw(st.integers(0, 6)))
    ]
    cells = st.sampled_from([1.0, 2.0, math.inf, math.nan])
    job: list[StepRecord] = []
    defined: set[int] = set()
    for step in range(draw(st.integers(0, 12))):
        ids = draw(st.lists(st.integers(0, 8), unique=True, max_size=4))
        new = [(i, infos[i]) for i in ids if i < len(infos) and i not in defined]
        defined |= {i for i, _ in new}
        rows = [
            row(count=4, nan=draw(st.sampled_from([0, 4])), inf=0, l2=draw(cells), mean=draw(cells))
            for _ in ids
        ]
        job.append(
            record(
                step,
                key=StepKey(step=step, mode=draw(st.sampled_from([Mode.TRAIN, Mode.EVAL]))),
                skipped=draw(st.booleans()),
                defined=tuple(new),
                tensor_T=np.array(ids, np.uint32),
                summary_TF=np.array(rows).reshape(len(ids), WIDTH),
                scalars=tuple(
                    draw(
                        st.lists(
                            st.builds(Scalar, st.sampled_from("ab"), st.just(""), cells), max_size=2
                        )
                    )
                ),
            )
        )
    return job


def present(statistic: str, cells: np.ndarray) -> bool:
    value = cells[FIELDS.index(statistic)]
    return not math.isnan(value) or (
        statistic == "mean" and cells[FIELDS.index("nan")] == cells[FIELDS.index("count")]
    )


def naive(
    job: list[StepRecord],
    kind: str,
    statistic: str,
    roles: tuple[str, ...],
    keep: int,
    mode: Mode = Mode.TRAIN,
):
    """Return the matrix of a job as a list of (step, skipped, {name: value})."""
    infos = dict(pair for item in job for pair in item.defined)
    rows = []
    for item in job:
        if item.key.mode is not mode:
            continue
        cells = {
            infos[i].name: values[FIELDS.index(statistic)]
            for i, values in zip(item.tensor_T.tolist(), item.summary_TF, strict=True)
            if i in infos
            and infos[i].kind == kind
            and (kind != "activation" or not roles or infos[i].role in roles)
            and present(statistic, values)
        }
        if cells:
            rows.append((item.key.step, item.skipped, dict(sorted(cells.items()))))
    return rows[-keep:]


def shown(window: Window, kind: str, statistic: str, mode: Mode = Mode.TRAIN):
    matrix = window.matrix(kind, statistic, mode)
    if matrix is None:
        return []
    assert matrix.mode is mode
    assert np.isnan(matrix.values_ST[~matrix.present_ST]).all()
    names = [tensor.name for tensor in matrix.tensors]
    return [
        (
            int(step),
            bool(skipped),
            dict(sorted((n, v) for n, v, there in zip(names, values, flags, strict=True) if there)),
        )
        for step, skipped, values, flags in zip(
            matrix.steps_S, matrix.skipped_S, matrix.values_ST, matrix.present_ST, strict=True
        )
    ]


@given(jobs(), st.integers(1, 6), st.sampled_from([(), ("rectifier",)]))
@settings(max_examples=150, deadline=None)
def test_windows_equal_a_naive_model(
    job: list[StepRecord], keep: int, roles: tuple[str, ...]
) -> None:
    needs = [
        Need(kinds=("gradient", "activation"), statistics=("l2", "mean"), roles=roles, steps=keep),
        Need(kinds=("gradient",), statistics=("l2",), steps=1),
        Need(kinds=("activation",), statistics=("mean",), steps=1, modes=(Mode.EVAL,)),
    ]
    builder = WindowBuilder(needs, 3, steps=1)
    for count, item in enumerate(job, 1):
        builder.feed(item)
        window = builder.window(5.0)
        for kind in ("gradient", "activation"):
            for statistic in ("l2", "mean"):
                expected = naive(job[:count], kind, statistic, roles, keep)
                assert str(shown(window, kind, statistic)) == str(expected)
        evaluated = naive(job[:count], "activation", "mean", (), 1, Mode.EVAL)
        assert str(shown(window, "activation", "mean", Mode.EVAL)) == str(evaluated)
        assert window.matrix("gradient", "l2", Mode.EVAL) is None
        train = [r for r in job[:count] if r.key.mode is Mode.TRAIN]
        assert window.steps_S.tolist() == [r.key.step for r in train][-keep:]
        assert window.skipped_S.tolist() == [r.skipped for r in train][-keep:]
        assert (window.total_steps, window.worker, window.now_s) == (len(train), 3, 5.0)
        assert window.matrix("weight", "l2") is None
        for series in window.series:
            values = [
                (r.key.step, s.value)
                for r in job[:count]
                if r.key.mode is series.mode
                for s in r.scalars
                if (s.name, s.of) == (series.name, series.of)
            ]
            got = list(zip(series.steps_S.tolist(), series.values_S.tolist(), strict=True))
            assert str(got) == str(values[-keep:])
            assert series.total == len(values)
            assert str(series.first) == str(values[0][1])
            assert str(series.early_S.tolist()) == str([value for _, value in values[:10]])


@given(jobs(), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_a_rewound_builder_is_as_if_the_steps_had_not_been(
    job: list[StepRecord], step: int
) -> None:
    need = Need(kinds=("gradient",), statistics=("l2",), steps=100)
    rewound, direct = WindowBuilder([need]), WindowBuilder([need])
    for item in job:
        rewound.feed(item)
        if item.key.step < step:
            direct.feed(item)
    rewound.rewind(step)
    a, b = rewound.window(0.0), direct.window(0.0)
    assert a.steps_S.tolist() == b.steps_S.tolist()
    assert a.total_steps == b.total_steps
    assert str(shown(a, "gradient", "l2")) == str(shown(b, "gradient", "l2"))
    assert {(s.name, s.mode): s.total for s in a.series if s.total} == {
        (s.name, s.mode): s.total for s in b.series
    }
    early = [{(s.name, s.mode): str(s.early_S) for s in w.series if s.total} for w in (a, b)]
    assert early[0] == early[1]


def test_inactive_units_have_rows_only_where_they_were_sampled() -> None:
    builder = WindowBuilder([Need(kinds=("activation",), statistics=("inactive",))])
    infos = ((0, TensorInfo(kind="activation", name="relu", role="rectifier")),)
    for step in range(8):
        inactive = 0.25 if step % 4 == 0 else math.nan
        cells = np.array([row(count=4, nan=4, inf=0, inactive=inactive)])
        ids = np.zeros(1, np.uint32)
        builder.feed(
            record(step, defined=infos if step == 0 else (), tensor_T=ids, summary_TF=cells)
        )
    matrix = builder.window(0.0).matrix("activation", "inactive")
    assert matrix is not None
    assert matrix.steps_S.tolist() == [0, 4]
    assert matrix.values_ST.tolist() == [[0.25], [0.25]]


def test_of_models_alone_a_need_shows_what_user_code_hands_over() -> None:
    whole = Need(kinds=("input",), statistics=("mean",), of_root=True)
    inside = TensorInfo(kind="input", name="encoder.0")
    given = TensorInfo(kind="input", name="Model.0", of_root=True)
    ids, cells = np.arange(2, dtype=np.uint32), np.array([row(count=4, nan=0, inf=0, mean=0.5)] * 2)
    for needs, names in (([whole], ["Model.0"]), ([whole, EVERY_INPUT], ["encoder.0", "Model.0"])):
        builder = WindowBuilder(needs)
        builder.feed(record(0, defined=((0, inside), (1, given)), tensor_T=ids, summary_TF=cells))
        matrix = builder.window(0.0).matrix("input", "mean")
        assert matrix is not None
        assert [tensor.name for tensor in matrix.tensors] == names


def test_a_loss_series_knows_its_line_and_optimizers() -> None:
    builder = WindowBuilder([])
    about = LossSeries(step=0, series="main", location="train.py:9", optimizers=("adam",))
    builder.feed(record(0, observations=(about,)))
    (loss,) = builder.window(0.0).scalars("loss")
    assert (loss.location, loss.optimizers) == ("train.py:9", ("adam",))
    (step_s,) = builder.window(0.0).scalars("step_s")
    assert (step_s.location, step_s.optimizers) == (None, ())


def test_the_first_and_the_latest_observations_are_kept() -> None:
    builder = WindowBuilder([])
    blind = Blind(step=0, what="a", reason="b")
    builder.feed(record(0, observations=(blind,)))
    for step in range(1, 1000):
        builder.feed(record(step, observations=(LossCall(step=step, operation="nll"),)))
    calls = [o.step for o in builder.window(0.0).seen(LossCall)]
    assert calls[:FIRST_OBSERVATIONS] == list(range(1, FIRST_OBSERVATIONS + 1))
    assert calls[FIRST_OBSERVATIONS:] == list(range(1000 - LATEST_OBSERVATIONS, 1000))
    assert builder.window(0.0).observations[0] == blind


def test_a_worker_that_closes_makes_no_step() -> None:
    builder = WindowBuilder([])
    builder.feed(record(0))
    builder.feed(closing(1))
    assert builder.window(0.0).total_steps == 1


def test_a_pause_is_no_training() -> None:
    builder = WindowBuilder([])
    for step, wall_s in enumerate((1e9, 1e9 + 30, 1e9 + 90_000, 1e9 + 90_010)):
        builder.feed(record(step, wall_s=wall_s))
    assert builder.window(0.0).trained_s == 30 + PAUSE_S + 10


def test_rows_of_another_width_are_not_believed() -> None:
    builder = WindowBuilder([Need(kinds=("gradient",), statistics=("l2",))])
    builder.feed(record(0, width=5))
    assert builder.window(0.0).matrices == ()


def test_feeding_costs_little() -> None:
    needs = [
        Need(kinds=("gradient",), statistics=("l2", "nan", "inf")),
        Need(kinds=("activation",), statistics=("inactive",), roles=("rectifier",)),
    ]
    builder = WindowBuilder(needs)
    scalars = tuple(Scalar(f"s{i}", "", 1.0) for i in range(10))
    items = [record(step, tensors=200, scalars=scalars) for step in range(300)]
    costs = []
    for item in items:
        began = time.perf_counter()
        builder.feed(item)
        costs.append(time.perf_counter() - began)
    # Measured: 25 us. Fails if it becomes O(steps), not on a busy machine.
    assert sorted(costs)[len(costs) // 2] < 600e-6
