"""Tests of frozen dataclasses that are cheap to define."""

from __future__ import annotations

import dataclasses

import pytest

from mothtrap.core.frozen import frozen


@frozen
class Limits:
    """Two fields, one with a default."""

    name: str
    limit: float = 2.0


@dataclasses.dataclass(frozen=True)
class Same:
    """The class of the standard library with the same fields."""

    name: str
    limit: float = 2.0


@frozen
class More(Limits):
    """A field more, and what is computed from them."""

    width: int = 3
    area: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "area", self.limit * self.width)


@pytest.mark.parametrize("kind", [Limits, Same])
class TestLikeTheStandardLibrary:
    def test_values_are_given_in_order_and_by_name(self, kind: type) -> None:
        assert dataclasses.astuple(kind("a")) == ("a", 2.0)
        assert dataclasses.astuple(kind("a", limit=3.0)) == ("a", 3.0)

    def test_equal_fields_make_equal_objects(self, kind: type) -> None:
        assert kind("a") == kind("a", 2.0)
        assert hash(kind("a")) == hash(kind("a", 2.0))
        assert kind("a") != kind("b")

    def test_a_field_cannot_be_set_or_deleted(self, kind: type) -> None:
        made = kind("a")
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'limit'"):
            made.limit = 4.0
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'limit'"):
            del made.limit

    def test_a_copy_with_changes_and_its_text(self, kind: type) -> None:
        made = dataclasses.replace(kind("a"), limit=5.0)
        assert repr(made) == f"{kind.__name__}(name='a', limit=5.0)"

    @pytest.mark.parametrize(
        ("values", "named"),
        [((), {}), (("a", 1.0, 2), {}), (("a",), {"x": 1}), (("a",), {"name": 1})],
    )
    def test_wrong_values_are_refused(
        self, kind: type, values: tuple[object, ...], named: dict[str, object]
    ) -> None:
        with pytest.raises(TypeError):
            kind(*values, **named)


def test_objects_of_two_classes_differ() -> None:
    assert Limits("a") != Same("a")


def test_a_class_below_another_inherits_its_fields() -> None:
    made = More("a", 4.0)
    assert (made.width, made.area) == (3, 12.0)
    with pytest.raises(TypeError):
        More("a", 4.0, 3, 12.0)


def test_a_class_of_the_standard_library_may_be_below() -> None:
    below = dataclasses.dataclass(frozen=True)(type("Below", (Limits,), {}))
    assert below("a", 1.0).limit == 1.0
