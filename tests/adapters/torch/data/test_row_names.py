from __future__ import annotations

from typing import Any

import pytest

from mothtrap.adapters.torch.data.row_names import MAX_LENGTH, MAX_NAMES, names_in

PAIR = ["a", "b"]


@pytest.mark.parametrize(
    ("batch", "drawn", "names"),
    [
        ({"x": 1, "__key__": PAIR}, None, ("a", "b")),
        ({"image_path": PAIR, "id": ["1", "2"]}, None, ("a", "b")),
        ((1, PAIR), None, ("a", "b")),
        ({"caption": PAIR}, None, ()),
        ({"id": [1, 2]}, None, ()),
        ({}, ["k1", "k2"], ("k1", "k2")),
        (None, None, ()),
    ],
)
def test_names_are_texts_under_a_key_that_says_so(
    batch: Any, drawn: Any, names: tuple[str, ...]
) -> None:
    assert names_in(batch, drawn) == names


def test_names_are_bounded() -> None:
    found = names_in({"path": ["x" * 1000] * 1000})
    assert (len(found), len(found[0])) == (MAX_NAMES, MAX_LENGTH)
