"""References held by mothtrap: hidden from `swap_tensors`, marked when contents are swapped."""

from __future__ import annotations

import weakref

import pytest
import torch
from tests.adapters.torch.watched import classifier, sgd, train, watched
from torch import nn

from mothtrap.adapters.torch.job.tensor_refs import ContentRef, allow_swaps
from mothtrap.tracing.jobs.identity import ByIdentity


def test_tensors_that_mothtrap_refers_to_are_swapped() -> None:
    model = classifier()
    with watched() as seen:
        optimizer = sgd(model)
        train(model, optimizer, steps=2)
        for parameter in model.parameters():
            torch.utils.swap_tensors(parameter, nn.Parameter(torch.ones_like(parameter)))
        train(model, optimizer, steps=2)
    assert len(seen.steps()) == 4
    assert len(seen.scalars("loss")) == 4


def test_a_reference_of_the_user_is_still_respected() -> None:
    allow_swaps()
    tensor = torch.zeros(2)
    mine = weakref.ref(tensor)
    with pytest.raises(RuntimeError, match="weakref"):
        torch.utils.swap_tensors(tensor, torch.ones(2))
    assert mine() is tensor


def test_what_was_known_of_the_content_is_forgotten_and_the_name_is_not() -> None:
    allow_swaps()
    tensor = torch.zeros(2)
    content = ContentRef(tensor)
    names: ByIdentity[torch.Tensor, str] = ByIdentity()
    names[tensor] = "weight"
    assert not content.swapped
    torch.utils.swap_tensors(tensor, torch.ones(2))
    assert content.swapped
    assert names.get(tensor) == "weight"
