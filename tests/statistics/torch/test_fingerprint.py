from __future__ import annotations

import torch

from mothtrap.statistics.torch import fingerprint
from mothtrap.statistics.torch.fingerprint import _bit_sum, bit_sums


def test_equal_bits_have_equal_fingerprints_and_others_do_not() -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(5, 3), torch.randn(4, dtype=torch.bfloat16), torch.arange(3)]
    copies = [tensor.clone() for tensor in tensors]
    assert fingerprint(tensors) == fingerprint(copies)
    assert fingerprint(tensors) != fingerprint(copies[:2])
    assert fingerprint([torch.zeros(2, 3)]) != fingerprint([torch.zeros(3, 2)])
    assert fingerprint([torch.tensor([0.0])]) != fingerprint([torch.tensor([-0.0])])
    copies[1][2] = torch.nextafter(copies[1][2], torch.tensor(9.0, dtype=torch.bfloat16))
    assert fingerprint(tensors) != fingerprint(copies)


def test_sums_of_bits_tell_neighbors_apart_in_every_width() -> None:
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64):
        values = torch.ones(100, dtype=dtype)
        changed = values.clone()
        changed[7] += 2 * torch.finfo(dtype).eps
        assert _bit_sum(values) == _bit_sum(values.clone())
        assert _bit_sum(values) != _bit_sum(changed)
    assert _bit_sum(torch.tensor([True, False])) == 1


def test_sums_of_many_tensors_come_at_once() -> None:
    tensors = [torch.randn(5, 3), torch.arange(4), torch.tensor(-1.5, dtype=torch.bfloat16)]
    found = bit_sums(tensors)
    assert found == [int(_bit_sum(tensor)) % 2**64 for tensor in tensors]
    assert bit_sums([]) == []
    tensors[0][1, 1] += 1
    assert [a == b for a, b in zip(found, bit_sums(tensors), strict=True)] == [False, True, True]
