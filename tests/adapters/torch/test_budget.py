"""A real training under a budget, in simulated seconds: what is captured and what is omitted.

Steps take 1000 s and captures seconds, by a clock that only they move, so what is captured is the
same on each machine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests.adapters.torch.watched import Seen, batch, classifier, sgd

from mothtrap.adapters.torch import attach
from mothtrap.capture.containment import Containment
from mothtrap.capture.recorder import Recorder
from mothtrap.capture.selection import streams
from mothtrap.core.config import Config
from mothtrap.core.facts.captures import Thinned
from mothtrap.core.needs import Need
from mothtrap.statistics import torch as arithmetic
from mothtrap.tracing.jobs.adapter_job import AdapterJob
from mothtrap.tracing.jobs.process_job import ProcessJob

STEPS = 300
CHECKS = Need(kinds=("gradient",), statistics=("l2", "nan", "inf"))
COPIES = Need(kinds=("weight",), statistics=("quantiles",))


class Slow:
    """Arithmetic in which a table of a tensor takes seconds, and a copy even more."""

    norms = staticmethod(arithmetic.norms)
    describe = staticmethod(arithmetic.describe)

    def __init__(self, table_s: float) -> None:
        self.now_s, self.table_s = 0.0, table_s

    def clock(self) -> float:
        return self.now_s

    def summarize(
        self, tensors: Sequence[torch.Tensor], statistics: Iterable[str]
    ) -> npt.NDArray[np.float64]:
        self.now_s += self.table_s * len(tensors)
        return arithmetic.summarize(tensors, statistics)

    def copy_bytes(self, tensor: torch.Tensor, out_N: npt.NDArray[np.uint8]) -> None:
        self.now_s += 10.0
        arithmetic.copy_bytes(tensor, out_N)

    def gather_bytes(
        self, tensors: Sequence[torch.Tensor], begins: Sequence[int], out_N: npt.NDArray[np.uint8]
    ) -> None:
        self.now_s += 10.0 * len(tensors)
        arithmetic.gather_bytes(tensors, begins, out_N)


@pytest.fixture(scope="module")
def trained() -> Callable[[float], Seen]:
    """Train with such expensive tables; the last step has one non-finite value in a gradient."""

    @functools.cache
    def run(table_s: float) -> Seen:
        slow = Slow(table_s)
        config = Config(capture="everything")
        model = classifier()
        optimizer = sgd(model, 0.01)
        said: list[str] = []
        recorder: Recorder[torch.Tensor] = Recorder(
            slow,
            streams(config, [CHECKS, COPIES]),
            Containment(said.append),
            overhead=0.02,
            on_first_step=lambda: None,
            raw_bytes=1 << 30,
            clock=slow.clock,
        )
        handle = attach(AdapterJob(ProcessJob(recorder), "torch"), [model, optimizer])
        seen = Seen(handle.tracer, said)
        recorder.sinks.append(seen)
        for step in range(STEPS):
            x, y = batch()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            if step == STEPS - 1:
                model[0].weight.grad[0, 0] = torch.nan
            slow.now_s += 1000.0
            optimizer.step()
        handle.detach()
        recorder.emit_facts(*recorder.plan.take_reports(last=True))
        assert seen.failed() == []
        return seen

    return run


def made(seen: Seen) -> list[int]:
    """Return in how many steps gradients, weights, activations and copies were captured."""
    tables = ("gradient:0.weight", "weight:0.weight", "activation:0")
    return [*(len(seen.rows(t, "mean")) for t in tables), len(seen.raw("weight:0.weight"))]


@pytest.mark.parametrize(
    ("table_s", "expected"),
    [
        # A step costs 20.4 s, for two copies of 10 s.
        pytest.param(0.01, [300, 300, 300, 300], marks=pytest.mark.full),
        (1.0, [300, 300, 300, 140]),
        pytest.param(2.0, [300, 300, 220, 2], marks=pytest.mark.full),
        (4.0, [300, 79, 4, 2]),
        (10.0, [155, 3, 3, 2]),
    ],
)
def test_what_does_not_fit_is_shed_in_order(
    trained: Callable[[float], Seen], table_s: float, expected: list[int]
) -> None:
    seen = trained(table_s)
    assert made(seen) == pytest.approx(expected, abs=12)


@pytest.mark.parametrize(
    "table_s", [1.0, 4.0, 10.0, *(pytest.param(s, marks=pytest.mark.full) for s in (0.01, 2.0))]
)
def test_the_budget_is_held(trained: Callable[[float], Seen], table_s: float) -> None:
    seen = trained(table_s)
    own_S, time_S = seen.scalars("own_s")[50:], seen.scalars("step_s")[50:]
    assert sum(own_S) / sum(time_S) == pytest.approx(0.02, abs=0.002)


def test_checks_for_values_that_are_not_finite_are_never_shed(
    trained: Callable[[float], Seen],
) -> None:
    seen = trained(10.0)
    assert made(seen)[0] < 200
    found = seen.rows("gradient:0.weight", "nan")
    assert len(found) == STEPS
    assert [step for step, count in found.items() if count] == [STEPS - 1]


def test_what_was_shed_is_among_the_facts_of_the_run(trained: Callable[[float], Seen]) -> None:
    seen = trained(4.0)
    skipped: dict[str, int] = {}
    for fact in seen.observed(Thinned):
        skipped[fact.what] = skipped.get(fact.what, 0) + fact.count
    _, weights, activations, copies = made(seen)
    assert 2 <= copies <= activations < weights < STEPS
    assert skipped == {
        "everything: weights, biases": STEPS - weights,
        "everything: activations": STEPS - activations,
        "quantiles of weights": STEPS - copies,
    }
