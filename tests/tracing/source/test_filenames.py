from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mothtrap.tracing.source.filenames import file_names


def of(**held: Any) -> SimpleNamespace:
    return SimpleNamespace(**held)


@pytest.mark.parametrize(
    "entries",
    [
        ["a/0.png", "a/1.png", "b/2.png"],
        [("a/0.png", 0), ("a/1.png", 0), ("b/2.png", 1)],
        (Path("a/0.png"), Path("a/1.png"), Path("b/2.png")),
        np.array(["a/0.png", "a/1.png", "b/2.png"]),
        [["a/0.png", 3], ["a/1.png", 3], ["b/2.png", 3]],
    ],
)
def test_names_are_found_in_any_attribute(entries: Any) -> None:
    data = of(labels=[0, 0, 1], whatever=entries)
    found = file_names(data, 3)
    assert found is not None
    assert (found.attribute, found.root) == ("whatever", "")
    assert [found.of(data, index) for index in range(3)] == ["a/0.png", "a/1.png", "b/2.png"]
    assert found.are_sorted(data)


@pytest.mark.parametrize(
    "held",
    [
        {"texts": ["It is good.", "It is bad.", "Who knows?"]},
        {"texts": ["one", "two", "three"]},
        {"files": ["a.png", "b.png"]},
        {"numbers": [1.5, 2.5, 3.5]},
        {"pairs": [(1, "a.png"), (2, "b.png"), (3, "c.png")]},
        {"table": np.zeros((3, 3))},
        {},
    ],
)
def test_what_is_no_list_of_files_of_that_length_is_not_taken_for_one(held: Any) -> None:
    assert file_names(of(**held), 3) is None


def test_the_names_of_folders_of_images_come_first() -> None:
    data = of(masks=["m/0.png"], samples=[("x/0.png", 1)], root="x")
    found = file_names(data, 1)
    assert found is not None
    assert (found.attribute, found.of(data, 0)) == ("samples", "0.png")


def test_a_data_set_without_attributes_or_length_has_no_names() -> None:
    assert file_names([1, 2], 2) is None
    assert file_names(of(files=["a.png"]), None) is None


def test_data_that_changed_since_have_no_name() -> None:
    data = of(files=["a.png", "b.png"])
    found = file_names(data, 2)
    assert found is not None
    data.files = ["a.png"]
    assert found.of(data, 1) == ""
    del data.files
    assert found.of(data, 0) == ""
