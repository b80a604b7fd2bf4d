from __future__ import annotations

import torch
from tests.adapters.torch.watched import sgd, watched
from torch import nn
from torch.nn import functional

from mothtrap.core.facts.targets import CtcLabels


def observed(rows: list[list[int]], *, frames: int = 6, blank: int = 0) -> list[CtcLabels]:
    """Train on labels, padded with 0 to a matrix if their lengths differ."""
    torch.manual_seed(0)
    model = nn.Linear(3, 5)
    optimizer = sgd(model)
    counts = [len(row) for row in rows]
    padded = [row + [0] * (max(counts) - len(row)) for row in rows]
    lengths = torch.tensor(counts), torch.full((len(rows),), frames)
    with watched() as seen:
        for _ in range(12):
            logs = model(torch.randn(frames, len(rows), 3)).log_softmax(-1)
            loss = functional.ctc_loss(
                *(logs, torch.tensor(padded), lengths[1], lengths[0]),
                blank=blank,
                zero_infinity=True,
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert seen.failed() == []
    return seen.observed(CtcLabels)


def test_labels_that_are_the_blank() -> None:
    [fact] = observed([[1, 0, 2], [3, 1, 2]])
    assert (fact.labels, fact.blanks, fact.padding, fact.blank) == (30, 5, 0, 0)
    [fact] = observed([[1, 2, 0], [3, 1, 2]])
    assert (fact.blanks, fact.padding) == (5, 5)
    [fact] = observed([[1, 4, 2], [3, 0, 2]], blank=4)
    assert (fact.blanks, fact.blank) == (5, 4)


def test_padding_after_the_lengths_is_no_label() -> None:
    [fact] = observed([[1, 2], [3, 1, 2]])
    assert (fact.labels, fact.blanks, fact.rows, fact.short) == (25, 0, 10, 0)
    assert (fact.frames, fact.needed) == (None, None)


def test_equal_labels_need_a_frame_between_them() -> None:
    [fact] = observed([[1, 1, 2], [3, 1, 2]], frames=3)
    assert (fact.rows, fact.short, fact.frames, fact.needed) == (10, 5, 3, 4)
    assert fact.zeroed
