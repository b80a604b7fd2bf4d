"""Batches whose targets belong to other rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.checks.checked import network
from tests.checks.given import Given, finding, passes, result, table
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mothtrap.checks.subject import Array, Rows
from mothtrap.session.explicit_check import check

CODE = "PRE311"


def handed(x: Array, y: Array) -> list[Rows]:
    """Three batches of 16 rows."""
    places = [np.arange(begin, begin + 16) for begin in (0, 40, 80)]
    return [Rows(indices=tuple(p.tolist()), inputs=(x[p],), targets=y[p]) for p in places]


def test_targets_in_another_order_are_named() -> None:
    x, y = table()
    batches = [
        Rows(indices=one.indices, inputs=one.inputs, targets=np.roll(one.targets, 1))
        for one in handed(x, y)
        if one.targets is not None
    ]
    found = finding(CODE, Given(x, y, handed=batches))
    assert found.severity == "error"
    assert "3 of 3 batches" in found.message


def test_rows_with_their_own_targets_are_no_fault() -> None:
    x, y = table()
    assert passes(CODE, Given(x, y, handed=handed(x, y)))


def test_other_names_of_the_classes_are_no_fault() -> None:
    x, y = table()
    assert passes(CODE, Given(x, y, handed=handed(x, 2 - y)))


def test_rows_that_are_not_in_the_data_set_decide_nothing() -> None:
    x, y = table()
    made = result(CODE, Given(x, y, handed=handed(x + 1, y)))
    assert made.state == "not_applicable"


def apart(given: Array, right: Array, x: Array) -> Given:
    """Return a data set whose batches get their targets from elsewhere."""
    return Given(x, None, handed=handed(x, given), origin=Given(x, right))


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_targets_that_another_loader_shuffles_are_named(kind: str) -> None:
    x, y = table()
    right = y if kind == "classes" else x[:, 0] * 2
    given = np.random.default_rng(0).permutation(right)
    alone = Given(given[:, None], None, handed=handed(given[:, None], given))
    found = finding(CODE, apart(given, right, x), alone)
    assert found.severity == "warning"
    assert "3 of 3 batches" in found.message


def test_targets_of_another_loader_in_the_same_order_are_no_fault() -> None:
    x, y = table()
    assert passes(CODE, apart(y, y, x))
    assert passes(CODE, apart(2 - y, y, x))


def test_one_of_several_data_sets_is_judged_alone() -> None:
    x, y = table()
    sound = [Given(x + n, y, handed=handed(x + n, y)) for n in (1, 2)]
    batches = [
        Rows(indices=one.indices, inputs=one.inputs, targets=np.roll(one.targets, 1))
        for one in handed(x, y)
        if one.targets is not None
    ]
    assert finding(CODE, *sound, Given(x, y, handed=batches)).severity == "error"


def padded(y: Array, *, is_apart: bool, at_the_end: bool) -> Given:
    """Return sequences of tokens, and batches that are sorted by length and padded with 0."""
    rng = np.random.default_rng(3)
    texts = np.empty(len(y), object)
    texts[:] = [rng.integers(1, 50, rng.integers(3, 13)) for _ in y]
    batches = []
    for begin in (0, 40, 80):
        places = np.arange(begin, begin + 16)
        places = places[np.argsort([-len(texts[place]) for place in places], kind="stable")]
        tokens = np.zeros((16, max(len(texts[place]) for place in places)), int)
        for row, place in enumerate(places):
            part = slice(len(texts[place])) if at_the_end else slice(-len(texts[place]), None)
            tokens[row, part] = texts[place]
        lengths = np.array([len(texts[place]) for place in places])
        given = y[np.sort(places)] if is_apart else y[places]
        batches.append(
            Rows(indices=tuple(places.tolist()), inputs=(tokens, lengths), targets=given)
        )
    return Given(texts, y, handed=batches)


@pytest.mark.parametrize("at_the_end", [True, False])
def test_padded_sequences_that_are_sorted_without_their_targets_are_named(at_the_end: bool) -> None:
    y = np.random.default_rng(0).integers(0, 2, 200)
    found = finding(CODE, padded(y, is_apart=True, at_the_end=at_the_end))
    assert "3 of 3 batches" in found.message
    assert passes(CODE, padded(y, is_apart=False, at_the_end=at_the_end))


@pytest.mark.parametrize("shifted", [False, True])
def test_a_collate_function_given_to_check_is_judged(shifted: bool) -> None:
    x, y = map(torch.from_numpy, table())
    x = x.float()
    rows = TensorDataset(x, y)

    def collated(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, ...]:
        inputs, targets = map(torch.stack, zip(*samples, strict=True))
        return inputs, targets.roll(1) if shifted else targets

    loader = DataLoader(rows, 16, shuffle=True, collate_fn=collated)
    [made] = check(network(x.shape[1]), loader, nn.CrossEntropyLoss(), select=(CODE,)).results
    assert made.state == "done", made.reason
    assert bool(made.found) == shifted
