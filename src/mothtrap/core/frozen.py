"""Frozen dataclasses that are cheap to define: every job defines two hundred rules when it starts.

`dataclass(frozen=True)` compiles six methods for each class, which takes half a millisecond. The
methods here are written once, and read the fields of the class.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(made: type[T]) -> type[T]:
    """Make a class a frozen dataclass.

    Objects are equal if their class and their fields are. `dataclasses.fields` and
    `dataclasses.replace` work as for any dataclass.
    """
    bases = [vars(base).get("__dataclass_params__") for base in made.__mro__]
    is_below_frozen = any(base is not None and base.frozen for base in bases)
    options: dict[str, Any] = {"init": False, "repr": False, "eq": False}
    dataclasses.dataclass(frozen=is_below_frozen, **options)(made)
    made.__dataclass_params__.frozen = True  # type: ignore[attr-defined]
    for name, method in _METHODS.items():
        if name not in vars(made):
            setattr(made, name, method)
    return made


def _init(self: Any, *args: Any, **given: Any) -> None:
    fields = dataclasses.fields(self)
    who, names = type(self).__name__, [field.name for field in fields if field.init]
    if len(args) > len(names):
        raise TypeError(f"{who} has {len(names)} fields, but {len(args)} values were given")
    by_order = dict(zip(names, args, strict=False))
    if twice := by_order.keys() & given.keys():
        raise TypeError(f"{who} was given two values for {min(twice)!r}")
    given |= by_order
    if unknown := given.keys() - set(names):
        raise TypeError(f"{who} has no field {min(unknown)!r}")
    for field in fields:
        object.__setattr__(self, field.name, _value(who, field, given))
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _value(who: str, field: dataclasses.Field[Any], given: dict[str, Any]) -> Any:
    if field.name in given:
        return given[field.name]
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise TypeError(f"{who} needs a value for {field.name!r}")


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, field.name) for field in dataclasses.fields(self))


def _repr(self: Any) -> str:
    names = (field.name for field in dataclasses.fields(self))
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: object) -> Any:  # bool or NotImplemented
    if other.__class__ is not self.__class__:
        return NotImplemented
    return _values(self) == _values(other)


def _hash(self: Any) -> int:
    return hash((type(self), _values(self)))


def _setattr(_self: Any, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: Any, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _eq,
    "__hash__": _hash,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
}
