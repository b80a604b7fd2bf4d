"""Tensors that a state_dict does not hold, and tensors that only seem to be missing from it."""

from __future__ import annotations

import torch
from torch import nn

from mothtrap.adapters.torch.checking.unsaved import UnsavedState, unsaved_state


class Model(nn.Module):
    """Has layers in a list, a view of a weight, and a sparse constant."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.rest = [nn.Linear(4, 4), nn.Linear(4, 2)]
        self.turned = self.first.weight.T
        self.sparse = torch.eye(4).to_sparse()


def test_layers_in_a_list_change_and_get_their_first_value_back() -> None:
    model = Model()
    unsaved = UnsavedState(model)
    before = model.rest[1].weight.detach().clone()
    with torch.no_grad():
        for parameter in (*model.parameters(), *model.rest[1].parameters()):
            parameter += 1
    assert unsaved.changed() == {"rest.1.weight": (2, 4), "rest.1.bias": (2,)}
    with unsaved.first_again("rest.1.weight"):
        assert torch.equal(model.rest[1].weight, before)
    assert torch.equal(model.rest[1].weight, before + 1)


def test_a_model_that_cannot_be_read_has_no_known_state() -> None:
    class Broken(nn.Module):
        def named_modules(self, *_: object, **__: object) -> None:  # type: ignore[override]
            raise RuntimeError("not now")

    assert unsaved_state(Broken()) is None
