"""Values that a script logs are read without being changed."""

from __future__ import annotations

import torch

from mothtrap.session.record.conversion import as_array


def test_a_tensor_that_was_logged_can_still_be_resized() -> None:
    tensor = torch.zeros(4, 4)
    assert as_array(tensor).shape == (4, 4)
    assert as_array(torch.nn.Parameter(tensor)).shape == (4, 4)
    assert tensor.resize_(100, 100).shape == (100, 100)
