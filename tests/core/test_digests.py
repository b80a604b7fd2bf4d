from __future__ import annotations

from mothtrap.core.digests import MODULUS, as_scalar


def test_a_scalar_holds_the_last_bits_of_a_digest_exactly() -> None:
    for digest in (0, 1, MODULUS - 1, 2**64 - 1, 0x0123_4567_89AB_CDEF):
        assert int(as_scalar(digest)) == digest % MODULUS


def test_scalars_of_sums_add_up() -> None:
    first, second = 2**64 - 5, 2**63 + 12345
    whole = as_scalar((first + second) % 2**64)
    assert (int(as_scalar(first)) + int(as_scalar(second))) % MODULUS == int(whole)
