"""Explanations of exceptions, and exceptions that are not explained."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.adapters.torch.explaining.raising import explained, explaining, unexplained
from tests.adapters.torch.watched import sgd, train, watched
from torch import nn
from torch.utils.data import DataLoader

from mothtrap.adapters.torch.explaining.failures import explain
from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.steps import Mode


def from_cause() -> None:
    try:
        nn.Linear(4, 2)(torch.zeros(3, 5))
    except RuntimeError as error:
        raise ValueError("step 3 failed") from error


def while_handled() -> None:
    try:
        nn.Linear(4, 2)(torch.zeros(3, 5))
    except RuntimeError:
        int("x")


def refuse() -> None:
    raise RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x4 and 3x3)")


@pytest.mark.parametrize(
    "act",
    [
        lambda: {}["loss"],
        lambda: [][3],
        lambda: 1 / 0,
        lambda: torch.zeros(3).no_such_thing,  # type: ignore[attr-defined]
        refuse,
        while_handled,
    ],
)
def test_exceptions_of_the_scripts_own_code_are_left_alone(act: Callable[[], object]) -> None:
    assert unexplained(act)


def test_an_exit_is_no_failure() -> None:
    with watched() as seen:
        for error in (KeyboardInterrupt(), SystemExit(2)):
            assert explain(error, 0, seen.tracer.book, seen.tracer.forwards) is None


def test_what_a_script_raises_from_it_is_explained_by_its_cause() -> None:
    found = explained(from_cause)
    assert found.error.startswith("RuntimeError: mat1 and mat2")
    assert "its last axis must be 4, but is 5" in found.sentence


def test_of_what_nothing_is_known_the_layer_is_named() -> None:
    found = explained(lambda: nn.Bilinear(3, 4, 5)(torch.zeros(2, 3), torch.zeros(2, 5)))
    assert found.module is not None
    found = explained(lambda: nn.Linear(3, 2)())
    assert found.kind == "other"
    assert "nn.Linear(3, 2)" in found.sentence
    assert "missing 1 required positional argument" in found.sentence


def test_an_evaluation_is_told_from_training() -> None:
    model = nn.Linear(4, 2)
    assert explained(lambda: model(torch.zeros(3, 5))).mode is Mode.TRAIN
    model.eval()
    assert explained(lambda: model(torch.zeros(3, 5))).mode is Mode.EVAL


def test_the_batch_is_told_with_its_samples() -> None:
    with explaining() as told:
        loader = DataLoader(list(torch.zeros(7, 5)), batch_size=4)  # type: ignore[arg-type]
        batches = iter(loader)
        assert len(next(batches)) == 4
        last = next(batches)
        found = told(lambda: nn.Linear(4, 2)(last))
    assert found.batch.startswith("loader 1 (")
    assert found.batch.endswith(
        "gave 3 rows, fewer than its batch size 4; samples 4 to 6 of its data"
    )


def test_the_maker_of_a_tensor_is_named_with_the_shape_it_gave() -> None:
    with explaining() as told:
        body, head = nn.Linear(3, 6), nn.Linear(5, 2)

        def run() -> None:
            h = body(torch.zeros(4, 3))
            head(h.view(2, 12))

        found = told(run)
    assert "it comes from Linear (nn.Linear(3, 6)" in found.sentence
    assert found.sentence.endswith("which gave (4, 6)")
    assert "head" not in found.batch


def test_nothing_of_the_training_is_kept_alive_for_it() -> None:
    with watched() as seen:
        model = nn.Linear(6, 3)
        train(model, sgd(model), steps=2)
    assert seen.observed(ScriptFailed) == []
