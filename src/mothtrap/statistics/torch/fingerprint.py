"""One digest of many tensors, equal if all their bits are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
import xxhash

from mothtrap.statistics.torch.in_place import as_array
from mothtrap.statistics.torch.plain import local
from mothtrap.statistics.torch.raw import digest

_INTEGERS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def fingerprint(tensors: Sequence[torch.Tensor]) -> int:
    """Return a 64-bit digest that is equal for tensors of equal bits, types and shapes.

    On a CPU, it is a hash of the tensors' digests. On an accelerator, it is based on the sums of
    their elements, read as integers, which are computed there and copied at once: integer sums do
    not depend on the order. Such a sum does not detect swapped elements. For a distributed tensor,
    this worker's part is used.
    """
    hashed = xxhash.xxh3_64()
    sums: list[torch.Tensor] = []
    with torch.no_grad():
        for tensor in map(local, tensors):
            hashed.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
            if tensor.device.type == "cpu" or tensor.layout is not torch.strided:
                hashed.update(digest(tensor).to_bytes(8, "little"))
            else:
                sums.append(_bit_sum(tensor))
        if sums:
            there = torch.stack([s.to(sums[0].device) for s in sums])
            hashed.update(as_array(there.cpu()).tobytes())
    return hashed.intdigest()


def bit_sums(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Return the sum of each tensor's elements read as integers, modulo 2^64.

    The sums are computed on the device, and copied together; see `fingerprint` for their limits.

    Args:
        tensors: strided, of any type, on accelerators or not.
    """
    if not tensors:
        return []
    with torch.no_grad():
        sums = [_bit_sum(local(tensor)) for tensor in tensors]
        host = torch.stack([s.to(sums[0].device) for s in sums]).cpu()
    return [number % (1 << 64) for number in host.tolist()]


def _bit_sum(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.resolve_conj().resolve_neg()
    if values.is_complex():
        values = torch.view_as_real(values)
    return values.contiguous().view(_INTEGERS[values.element_size()]).sum(dtype=torch.int64)
