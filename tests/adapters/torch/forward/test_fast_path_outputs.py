"""Activations that are inspected together are bit-identical to the returned ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.adapters.torch.forward.test_fast_path_forwards import MODELS
from tests.adapters.torch.watched import EVERYTHING, Seen, sgd, watched, whole
from torch import nn

from mothtrap.adapters.torch.forward import calls, fast_path, fast_path_outputs, rewritten_outputs
from mothtrap.core.schedule import Schedule
from mothtrap.core.steps import Mode
from mothtrap.statistics.summary import FIELDS, STATISTICS
from mothtrap.statistics.torch import reducers

Tensor = torch.Tensor

pytestmark = pytest.mark.skipif(
    fast_path.compiled is None, reason="the package was built without a C compiler"
)
STEPS = 40
"""The last of these steps no longer inspect forwards."""
LATE = Schedule(every=1, start=STEPS - 8)
VALUES = (
    *whole("activation", schedule=LATE),
    replace(whole("activation", statistics=STATISTICS)[0], name="statistics"),
)
NEEDS_GRAPH = 2
"""The model that cannot be evaluated without one."""


class Rectified(nn.Module):
    """Two outputs are written to in place, by a module and by hand; one layer is shared."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3, padding=1)
        self.act = nn.ReLU(inplace=True)
        self.around = nn.Conv1d(4, 4, 1)
        self.last = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.conv(x[:, None].expand(-1, 2, -1)))
        y = self.around(x)
        y += x
        return self.last(self.last(self.around(y))).mean(1)


class Sometimes(nn.Module):
    """An output is written to in one step only."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.calls = nn.Linear(6, 6), nn.Linear(6, 6), 0

    def forward(self, x: Tensor) -> Tensor:
        x, self.calls = self.first(x), self.calls + self.training
        if self.training and self.calls in (STEPS - 3, STEPS - 1):
            x.mul_(3.0)
        return self.last(x)


def trained(make: type[nn.Module], *, inference: bool = False) -> Seen:
    """Return the observations of some steps, and of an evaluation after each."""
    torch.manual_seed(0)
    model = make()
    optimizer = sgd(model, 1e-4)
    with watched(capture=VALUES) as seen:
        for _ in range(STEPS):
            model(torch.ones(3, 6)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if make is not MODELS[NEEDS_GRAPH]:
                with torch.inference_mode() if inference else torch.no_grad():
                    model.eval()(torch.ones(3, 6))
                    model.train()
    return seen


Kept = dict[str, dict[int, bytes | float]]


def kept(seen: Seen) -> Kept:
    """Return the captured activations: values by step, of each tensor and statistic."""
    raw: Kept = {
        f"{identity} {mode}": {step: v.numpy().tobytes() for step, v in seen.raw(identity, mode)}
        for identity in seen.kept()
        for mode in (Mode.TRAIN, Mode.EVAL)
    }
    rows: Kept = {
        f"{info.identity} {field}": dict(seen.rows(info.identity, field))
        for info in seen.tensors.values()
        for field in FIELDS
    }
    return raw | rows


def differences(one: Kept, other: Kept) -> Kept:
    """Return the captured values that only the first of two trainings has."""
    return {
        name: rest
        for name, values in one.items()
        if (rest := dict(values.items() - other.get(name, {}).items()))
    }


@pytest.mark.parametrize(
    ("model", "batch_bytes"),
    [
        *((model, rewritten_outputs.BATCH_BYTES) for model in (*MODELS[1:], Rectified)),
        (MODELS[0], 150),
        *(
            pytest.param(MODELS[0], batch_bytes, marks=pytest.mark.full)
            for batch_bytes in (rewritten_outputs.BATCH_BYTES, 0)
        ),
    ],
)
def test_values_are_the_same_as_if_every_call_were_observed(
    model: type[nn.Module], batch_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path_outputs, "BATCH_BYTES", batch_bytes)
    monkeypatch.setattr(rewritten_outputs, "BATCH_BYTES", batch_bytes)
    together = kept(trained(model))
    monkeypatch.setattr(fast_path, "compiled", None)
    observed = kept(trained(model))
    assert (differences(together, observed), differences(observed, together)) == ({}, {})
    assert len(together) > 3


def test_an_inference_counts_no_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    together = kept(trained(Rectified, inference=True))
    monkeypatch.setattr(fast_path, "compiled", None)
    assert differences(kept(trained(Rectified, inference=True)), together) == {}


def test_statistics_are_taken_as_outputs_return_and_are_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, paid = [], []
    summarize, charge = reducers.ReadAlready.summarize, calls.CallCapture.charge
    monkeypatch.setattr(
        reducers.ReadAlready,
        "summarize",
        lambda self, tensors, wanted: (read.append(len(tensors)), summarize(self, tensors, wanted))[
            1
        ],
    )
    monkeypatch.setattr(
        calls.CallCapture,
        "charge",
        lambda self, cost_s: (paid.append(cost_s), charge(self, cost_s))[1],
    )
    seen = trained(Sometimes)
    assert read
    assert set(read) == {1, 2}
    assert len(paid) == len(read)
    assert 0.0 < sum(paid) < seen.tracer.recorder.captures.cost_s < seen.tracer.recorder.times.own_s


def test_what_is_not_finite_as_it_returns_is_counted() -> None:
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(6, 6), nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x) * x.new_tensor([1, 1, torch.inf, 1, 1, torch.nan]))

    rows = trained(Breaks).rows("activation:last", "nan")
    assert set(rows) == set(range(STEPS))
    assert min(rows.values()) >= 3


def test_many_outputs_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    left_all = calls.CallCapture.left_all
    monkeypatch.setattr(
        calls.CallCapture,
        "left_all",
        lambda self, outputs, before: (
            taken.append(len(outputs)),
            left_all(self, outputs, before),
        )[1],
    )
    trained(Sometimes)
    assert max(taken) == 2
    assert len(taken) > STEPS


def test_a_value_that_was_written_to_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    together = trained(Sometimes)
    monkeypatch.setattr(fast_path, "compiled", None)
    observed = trained(Sometimes)
    first = "activation:first"
    missing = {step for step, _ in observed.raw(first)} - {step for step, _ in together.raw(first)}
    assert set(together.blind()) - set(observed.blind()) == {"one activation of first"}
    assert len(missing) == 1  # from then on it is inspected when it returns
    assert [(s, v.tolist()) for s, v in together.raw(first)] == [
        (s, v.tolist()) for s, v in observed.raw(first) if s not in missing
    ]


def test_everything_takes_the_fast_path_and_sees_sleeping_units() -> None:
    class Sleeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Conv1d(2, 4, 1), nn.ReLU())
            self.layers[0].bias.data = torch.tensor([-100.0, 100.0, -100.0, 100.0])

        def forward(self, x: Tensor) -> Tensor:
            return self.layers(x[:, None].expand(-1, 2, -1))

    model = Sleeps()
    optimizer = sgd(model, 1e-4)
    with watched(capture=EVERYTHING) as seen:
        for _ in range(STEPS):
            model(torch.ones(3, 6)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert set(seen.rows("activation:layers.1", "inactive").values()) == {0.5}


def test_nothing_is_held_of_a_forward_that_was_interrupted_while_it_was_learned_from() -> None:
    known = rewritten_outputs.RewrittenOutputs()
    root, layer = nn.Linear(6, 6), nn.Linear(6, 6)
    known.root_called()
    known.learn(root)
    known.returned(layer, torch.ones(6))
    known.root_called()  # of another one, which nothing is learned from
    known.root_returned()
    assert not known._seen
    assert not known.knows(root)
