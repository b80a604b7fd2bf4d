"""Digests of the states of random number generators; nothing is drawn from them."""

from __future__ import annotations

import ctypes
import functools
import random
import struct
from collections.abc import Iterator

import numpy as np
import torch
import xxhash

_SPREAD = 39
"""One word in so many of Python's state is looked at, and its last, the position (624 =
16 x 39): all words are drawn anew together, and all depend on the seed."""


def random_digests() -> Iterator[tuple[str, int]]:
    """Yield the digest of every global generator: Python's, numpy's, and the framework's.

    Of an accelerator only those of a device that is in use, and not while work is being
    captured there.
    """
    words = random.getstate()[1][::_SPREAD]
    yield "rng.python", xxhash.xxh3_64_intdigest(struct.pack(f"{len(words)}Q", *words))
    yield "rng.numpy", _numpy_digest()
    yield "rng.torch", xxhash.xxh3_64_intdigest(torch.get_rng_state().numpy().data)
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if in_use and not torch.cuda.is_current_stream_capturing():
        state = torch.cuda.get_rng_state()  # seed and offset are kept on the host
        yield "rng.cuda", xxhash.xxh3_64_intdigest(state.numpy().data)


def _numpy_digest() -> int:
    """The state without the second half of a pair of normal numbers that waits for its turn."""
    generator = np.random.mtrand.get_bit_generator()
    if isinstance(generator, np.random.MT19937):
        return xxhash.xxh3_64_intdigest(_words(generator.ctypes.state_address))
    return xxhash.xxh3_64_intdigest(repr(generator.state).encode())


@functools.lru_cache(maxsize=4)
def _words(address: int) -> ctypes.Array[ctypes.c_uint8]:
    """The state of a Mersenne twister where it lies: 624 words and the position."""
    return (ctypes.c_uint8 * (624 * 4 + 4)).from_address(address)
