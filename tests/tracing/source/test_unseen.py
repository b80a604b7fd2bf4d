"""A warning of PyTorch keeps the line of the script that caused it."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from tests.adapters.torch.watched import watched
from torch import nn
from torch.nn import functional

from mothtrap.tracing.source.unseen import FILENAME, unseen


def test_a_loss_that_warns_blames_its_caller(tmp_path) -> None:
    with warnings.catch_warnings(record=True) as caught, watched():
        warnings.simplefilter("always")
        functional.mse_loss(torch.ones(3, 1), torch.ones(3))
        line = sys._getframe().f_lineno - 1
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]


def test_a_frame_between_is_passed_over() -> None:
    def warn() -> None:
        warnings.warn("look", stacklevel=2)

    @unseen
    def between() -> None:
        warn()

    assert between.__code__.co_filename == FILENAME
    with pytest.warns(UserWarning, match="look") as caught:
        between()
    assert caught[0].filename == __file__


def test_warnings_out_of_a_forward_count_their_frames_as_always() -> None:
    class Warns(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            warnings.warn("deep", stacklevel=4)
            return x

    module = Warns()
    found = []
    for seen in (False, True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if seen:
                with watched():
                    module(torch.ones(1))
            else:
                module(torch.ones(1))
        found.append([w.filename for w in caught])
    assert found[0] == found[1]
