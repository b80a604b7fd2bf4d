from __future__ import annotations

import numpy as np
import pytest

from mothtrap.core.errors import UnknownNameError
from mothtrap.statistics.dtypes import NAMES, array_of, dtype_of, name_of


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_a_type_of_that_name(name: str) -> None:
    assert name_of(dtype_of(name)) == name


def test_a_big_endian_type_has_the_same_name() -> None:
    assert name_of(">f4") == "float32"


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'object' is not a tensor"):
        name_of(np.dtype(object))
    with pytest.raises(UnknownNameError, match=r"did you mean .*float32"):
        dtype_of("flaot32")


def test_complex_numbers_of_two_halves_come_value_by_value() -> None:
    halves = np.array([1.5, -2.0, np.inf, np.nan], np.float16)
    found = array_of(halves.tobytes(), "complex32")
    assert found.dtype == np.complex64
    assert np.array_equal(found.view(np.float32), halves.astype(np.float32), equal_nan=True)
    assert array_of(halves.tobytes(), "float16").tobytes() == halves.tobytes()
