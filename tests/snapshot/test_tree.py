from __future__ import annotations

import dataclasses
import enum
import math
import re
import subprocess
import sys
import tempfile
from collections import Counter, OrderedDict, UserDict, namedtuple
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mothtrap.core.errors import DamagedSnapshotError
from mothtrap.core.snapshots import Array, Tree
from mothtrap.snapshot.tree import Opaque, TreeMaker, keys_of, value_of

Pair = namedtuple("Pair", ["first", "second"])


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Item:
    text: str
    extra: Any = None

    def __post_init__(self) -> None:
        raise_if_forbidden()


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    number: int


class Batch:
    def __init__(self, x: Any) -> None:
        raise_if_forbidden()
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Batch) and self.x == other.x


class Ordered(OrderedDict):  # type: ignore[type-arg]
    def __setitem__(self, key: Any, value: Any) -> None:
        raise_if_forbidden()
        super().__setitem__(key, value)


class Trap:
    def __init__(self) -> None:
        self.armed = True

    def __del__(self) -> None:
        raise_if_forbidden()


forbidden = False


def raise_if_forbidden() -> None:
    if forbidden:
        raise AssertionError("code was run")


def there(value: Any) -> tuple[Tree, dict[str, Array], TreeMaker]:
    arrays: dict[str, Array] = {}

    def array(found: np.ndarray[Any, Any]) -> Tree:
        key = str(len(arrays))
        data = np.frombuffer(found.tobytes(), np.uint8)
        arrays[key] = Array(dtype=found.dtype.name, shape=found.shape, data=data)
        return {"array": key}

    maker = TreeMaker(lambda _: None, array)
    tree = maker.tree(value)
    text = msgspec.json.encode(tree)
    assert b"null" not in text or "None" in repr(value)
    return msgspec.json.decode(text), arrays, maker


def and_back(value: Any) -> Any:
    global forbidden
    tree, arrays, _ = there(value)
    assert keys_of(tree) == set(arrays)
    forbidden = True
    try:
        return value_of(tree, arrays, lambda _: pytest.fail("no framework value"))
    finally:
        forbidden = False


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -1, 2**63 - 1, 2**63, -(2**70), 1.0, 0.1, -0.0, math.inf, "", "a", "é\0"),
        *("\udcff.png", b"", b"\0\xff", 1 + 2j, complex(0, math.inf)),
        *([], (), {}, set(), frozenset([1]), [1, [2.0, (3, {"a": None})]], {1: "a", (1, 2): {3}}),
        *(slice(1, None, 2), range(3, 9, 2), Path("a/b"), Color.RED, Pair(1, [2])),
        *(Item("a", {"b": 1}), Slotted(3), Batch([1]), Counter("aab"), UserDict({"a": 1})),
        Ordered([("b", 1), ("a", 2)]),
    ],
    ids=lambda value: re.sub(r" at 0x[0-9a-f]+", "", repr(value)),
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    found = and_back(value)
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value) or isinstance(value, Batch | Path)


def test_what_is_no_number_stays_none() -> None:
    assert math.isnan(and_back([float("nan")])[0])
    assert math.copysign(1, and_back(-0.0)) == -1


@pytest.mark.parametrize(
    "value",
    [
        *(np.arange(6).reshape(2, 3)[:, ::2], np.zeros((0, 3), np.float16), np.array(True)),
        *(np.array(["a", "bcd"]), np.array([[b"x"]]), np.array([1, "a", None], dtype=object)),
        np.float32(1.5),
    ],
    ids=lambda value: re.sub(r" at 0x[0-9a-f]+", "", repr(value)),
)
def test_arrays_come_back_as_they_were(value: Any) -> None:
    found = and_back(value)
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert type(found) is type(value)
    np.testing.assert_array_equal(found, value)
    if isinstance(found, np.ndarray):
        assert found.flags.writeable


def test_what_cannot_be_kept_is_described() -> None:
    tree, _, maker = there([len, Trap(), np.array(["2020"], "M8[Y]"), np.random.default_rng()])
    assert [next(iter(part)) for part in tree["list"]] == ["opaque"] * 4  # type: ignore[index, call-overload]
    assert len(maker.opaque) == 4
    assert isinstance(and_back(len), Opaque)


def test_what_never_ends_is_cut_off() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert "too deep" in str(there(loop)[0])


def test_a_class_that_is_not_there_becomes_a_dict() -> None:
    tree = {"named": "colorsys.Pair", "fields": {"a": 1}}
    sys.modules.pop("colorsys", None)
    assert value_of(tree, {}, lambda _: None) == {"a": 1}
    assert "colorsys" not in sys.modules


@pytest.mark.parametrize("cls", [subprocess.Popen, tempfile._TemporaryFileCloser, Trap])
def test_objects_are_made_of_data_classes_alone(cls: type) -> None:
    tree = {"named": f"{cls.__module__}.{cls.__qualname__}", "fields": {"args": "false"}}
    assert value_of(tree, {}, lambda _: None) == {"args": "false"}


def test_no_setter_is_called() -> None:
    tree = {"named": f"{__name__}.Guarded", "fields": {"x": 1}}
    found = value_of(tree, {}, lambda _: None)
    assert type(found).__name__ == "Guarded"


class Guarded:
    @property
    def x(self) -> int:
        return 0

    @x.setter
    def x(self, value: int) -> None:
        raise AssertionError("code was run")


@pytest.mark.parametrize(
    "tree",
    [
        {},
        [],
        {"unknown": 1},
        {"tensor": "absent"},
        {"array": 3},
        {"list": 3},
        {"dict": [[1]]},
        {"dict": [[{"list": []}, 1]]},
        {"float": "x"},
        {"int": "x"},
        {"int": "9" * 5000},
        {"bytes": "?"},
        {"objects": [1], "dtype": "<U1", "shape": [7]},
        {"objects": [1], "dtype": "f8", "shape": [1]},
        {"named": "collections.Counter"},
        {"slice": [1, 2, 3, 4]},
    ],
    ids=lambda value: re.sub(r" at 0x[0-9a-f]+", "", repr(value)),
)
def test_forms_that_do_not_exist_are_refused(tree: Any) -> None:
    with pytest.raises(DamagedSnapshotError):
        value_of(tree, {}, lambda _: None)
