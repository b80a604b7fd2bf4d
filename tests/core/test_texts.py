"""Messages are written for people."""

from __future__ import annotations

import pytest

from mothtrap.core.texts import readable


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("steps of 2.7e+02 ms", "steps of 270 ms"),
        ("1.2e+03x its median (limit 100x)", "1,200x its median (limit 100x)"),
        ("norm 3.1e+04 is 4.1e+05x", "norm 3.1e+04 is 410,000x"),
        ("3.94e+13x within 1 steps", "3.94e+13x within 1 step"),
        ("in 1 steps, in 1,001 steps, in 0.1 steps", "in 1 step, in 1,001 steps, in 0.1 steps"),
        ("1 batches, 1 losses, 21 layers", "1 batch, 1 loss, 21 layers"),
        ("1 more layers, 21 more layers", "1 more layer, 21 more layers"),
        ("98.0% (limit 80%) of c_10%, 3 %", "98.0 % (limit 80 %) of c_10%, 3 %"),
    ],
)
def test_ratios_and_times_are_written_out_and_one_is_singular(written: str, read: str) -> None:
    assert readable(written) == read
