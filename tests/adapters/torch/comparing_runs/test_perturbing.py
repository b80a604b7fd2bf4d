from __future__ import annotations

import pytest
import torch
from torch import nn

from mothtrap.adapters.torch.comparing_runs.perturbing import Perturbation


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_weight_changes_once_by_its_rounding_error(dtype: torch.dtype) -> None:
    net = nn.Linear(20, 20).to(dtype)
    before = net.weight.detach().clone()
    state = torch.get_rng_state()
    perturbation = Perturbation()
    perturbation.called(net)
    changed = net.weight.detach().clone()
    relative = ((changed - before) / before).abs()
    assert (changed != before).all()
    assert float(relative.max()) <= 2 * torch.finfo(dtype).eps
    assert 0.3 < float((changed > before).float().mean()) < 0.7
    perturbation.called(net)
    assert torch.equal(net.weight, changed)
    assert torch.equal(torch.get_rng_state(), state)
