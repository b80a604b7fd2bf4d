"""Assertions about values: one that holds and one that fails."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.checks.checked import table
from tests.checks.proofs.test_state_not_saved import Centered
from tests.testing.test_asserts import Detached
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.testing import asserts, value_asserts

PIXELS = np.random.default_rng(0).random((40, 3)).astype("float32")
LOSS = nn.CrossEntropyLoss()


def test_type_shape_and_range_of_inputs() -> None:
    loader = DataLoader(TensorDataset(torch.from_numpy(PIXELS), torch.zeros(40)), 8)
    for data in (PIXELS, loader):
        asserts.assert_inputs(data, dtype="float32", shape=(3,), between=(0, 1))


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"dtype": "uint8"}, "the inputs are float32, expected uint8"),
        ({"shape": (1, 3)}, r"samples have the shape \(3,\), expected \(1, 3\)"),
        ({"between": (0, 0.9)}, r"expected 0 to 0.9, in \d+ samples"),
    ],
)
def test_other_inputs_are_named(expected: dict, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        asserts.assert_inputs(PIXELS, **expected)


def test_inputs_that_are_not_finite_are_named_by_index() -> None:
    broken = PIXELS.copy()
    broken[7, 1] = np.nan
    with pytest.raises(AssertionError, match=r"not finite in 1 samples \(7\)"):
        asserts.assert_inputs(broken)


def test_outputs_of_normalizing_layers() -> None:
    model = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
    asserts.assert_outputs_normalized(model, table(), LOSS, layers="1")
    with pytest.raises(AssertionError, match="the output of 2 has mean"):
        asserts.assert_outputs_normalized(model, table(), LOSS, layers="2")
    with pytest.raises(AssertionError, match="no layer that was called"):
        asserts.assert_outputs_normalized(model, table(), LOSS, layers="*norm*")


def test_a_function_that_seeds_is_repeatable() -> None:
    def seeded() -> dict[str, object]:
        torch.manual_seed(0)
        return {"weights": [torch.rand(3)], "loss": 0.5}

    asserts.assert_repeatable(seeded, runs=3)
    counts = itertools.count()
    with pytest.raises(AssertionError, match=r"result\['loss'\] differs"):
        asserts.assert_repeatable(lambda: {"loss": next(counts)})


def test_a_score_is_compared_with_each_baseline() -> None:
    baselines = {"dummy accuracy": 0.1, "linear accuracy": 0.8, "rows of training": 100.0}
    asserts.assert_beats(0.9, baselines)
    with pytest.raises(AssertionError, match=r"0\.7 does not beat 0\.8 of linear accuracy"):
        asserts.assert_beats(0.7, baselines)
    asserts.assert_beats(0.2, {"ridge": 0.3}, higher_is_better=False)


def test_a_run_without_a_finding_trains_as_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = asserts.check(Detached(), table(), LOSS, select=("PRE101",)).findings
    run = SimpleNamespace(findings=[found])
    monkeypatch.setattr(value_asserts, "open_run", lambda _: run)
    with pytest.raises(AssertionError, match="PRE101: layer"):
        asserts.assert_trains_like("run")
    asserts.assert_trains_like("run", allowed=["PRE101"])
    run.findings = []
    asserts.assert_trains_like("run")


def test_all_state_of_a_model_is_saved() -> None:
    asserts.assert_same_after_reload(nn.Linear(6, 3), table(), LOSS)
    with pytest.raises(AssertionError, match="does not contain mean"):
        asserts.assert_same_after_reload(Centered("plain"), table(), LOSS)
