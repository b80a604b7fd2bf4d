"""Conversion of nested values to plain JSON and arrays, and back (see `core.snapshots.Tree`).

Converting to a tree copies only plain values; the caller handles tensors and arrays. Converting
back runs no code that a snapshot names: it imports no module and calls no constructor, and it
creates objects only for classes that need no constructor.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import math
import sys
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePath
from types import BuiltinFunctionType, MemberDescriptorType
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.core.error_texts import in_one_line
from mothtrap.core.errors import DamagedSnapshotError
from mothtrap.core.snapshots import Array, Tree
from mothtrap.statistics.dtypes import NAMES, dtype_of

MAX_DEPTH = 60
"""Maximum nesting depth; chosen by hand, below the limit of JSON parsers."""

MAX_VALUES = 200_000
"""Maximum number of values in one tree; chosen by hand: the file names of a dataset fit."""

OPAQUE_LENGTH = 200
"""Maximum length of the text of an object that cannot be stored."""

_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_FORM_OF = {of: name for name, of in _SEQUENCES.items()}


class Opaque:
    """Placeholder for a value that was not stored; `text` describes it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"<not kept: {self.text}>"


class TreeMaker:
    """Converts values to trees.

    Args:
        framework: returns the tree of a framework's own value, such as a tensor, and None for
            others.
        array: stores a NumPy array of numbers or booleans, and returns its tree.
        most_values: maximum number of values in all trees together, not counting numbers and
            strings.

    Attributes:
        left: number of nodes that may still be added.
        opaque: descriptions of data that could not be kept so far, without repetitions.
    """

    def __init__(
        self,
        framework: Callable[[Any], Tree],
        array: Callable[[npt.NDArray[Any]], Tree],
        most_values: int = MAX_VALUES,
    ) -> None:
        self._framework, self._array = framework, array
        self.left = most_values
        self.opaque: dict[str, None] = {}

    def tree(self, value: Any, depth: int = 0) -> Tree:
        """Convert a value to a tree."""
        kind = type(value)
        if value is None or kind in (bool, str):
            return _text(value) if kind is str else value
        if kind is int:
            return value if -(2**63) <= value < 2**63 else {"int": str(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": _number_name(value)}
        self.left -= 1
        if self.left < 0 or depth > MAX_DEPTH:
            return self._give_up(value, "too large" if depth <= MAX_DEPTH else "nested too deeply")
        own = None if kind is dict or kind in _FORM_OF else self._framework(value)
        if own is not None:
            return own
        try:
            return self._plain(value, kind, depth + 1)
        except Exception as err:  # objects of the user may raise anything
            return self._give_up(value, in_one_line(err))

    def _plain(self, value: Any, kind: type, depth: int) -> Tree:
        if kind in _FORM_OF:
            return {_FORM_OF[kind]: [self.tree(item, depth) for item in value]}
        if kind is dict:
            return self._dict(value, depth)
        if kind is np.ndarray:
            return self._numpy(value, depth)
        if isinstance(value, np.generic):
            return {"scalar": self._numpy(np.asarray(value), depth)}
        if kind in (bytes, bytearray):
            return {"bytes": base64.b64encode(value).decode()}
        if kind is complex:
            return {"complex": [self.tree(value.real), self.tree(value.imag)]}
        if kind in (slice, range):
            ends = [self.tree(end, depth) for end in (value.start, value.stop, value.step)]
            return {kind.__name__: ends}
        if isinstance(value, PurePath):
            return {"path": str(value)}
        return self._named(value, kind, depth)

    def _dict(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        return {"dict": [[self.tree(k, depth), self.tree(v, depth)] for k, v in value.items()]}

    def _numpy(self, value: Any, depth: int) -> Tree:
        if value.dtype.name in NAMES:
            return self._array(value)
        if value.dtype.kind in "USO":
            objects = [self.tree(item, depth) for item in value.reshape(-1).tolist()]
            return {"objects": objects, "dtype": value.dtype.str, "shape": list(value.shape)}
        return self._give_up(value, f"an array of {value.dtype}")

    def _named(self, value: Any, kind: type, depth: int) -> Tree:
        name = f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(value, enum.Enum):
            return {"named": name, "member": value.name}
        if not _is_data(kind):
            return self._give_up(value, "")
        if isinstance(value, tuple):
            fields = dict(zip(getattr(kind, "_fields", ()), value, strict=True))
            return {"named": name, "fields": self._fields(fields, depth)}
        fields = dict(getattr(value, "__dict__", {}))
        if dataclasses.is_dataclass(kind):
            fields |= {f.name: getattr(value, f.name) for f in dataclasses.fields(kind)}
        tree: dict[str, Any] = {"named": name, "fields": self._fields(fields, depth)}
        if isinstance(value, dict):
            tree |= self._dict(dict(value.items()), depth)
        elif isinstance(value, list):
            tree |= {"list": [self.tree(item, depth) for item in value]}
        return tree

    def _fields(self, fields: Mapping[str, Any], depth: int) -> dict[str, Tree]:
        return {name: self.tree(value, depth) for name, value in fields.items()}

    def _give_up(self, value: Any, why: str) -> Tree:
        kind = type(value)
        text = f"{kind.__module__}.{kind.__qualname__}" + (f" ({why})" if why else "")
        self.opaque[text[:OPAQUE_LENGTH]] = None
        return {"opaque": text[:OPAQUE_LENGTH]}


def value_of(
    tree: Tree, arrays: Mapping[str, Array], framework: Callable[[dict[str, Any]], Any]
) -> Any:
    """Recreate the value that a tree describes.

    Args:
        tree: tree of a snapshot.
        arrays: arrays by key.
        framework: creates a framework's own value from the dict of a `tensor`, or of a
            `framework` with its fields already created.

    Raises:
        DamagedSnapshotError: a tree has an unknown form, or refers to an array that does not exist.
    """
    return _Reader(arrays, framework).value(tree, 0)


class _Reader:
    def __init__(
        self, arrays: Mapping[str, Array], framework: Callable[[dict[str, Any]], Any]
    ) -> None:
        self._arrays, self._framework = arrays, framework
        self._forms: dict[str, Callable[[dict[str, Any], int], Any]] = {
            "dict": self._dict,
            "named": self._named,
            "scalar": lambda tree, depth: self.value(tree["scalar"], depth)[()],
            "slice": lambda tree, depth: slice(*self._items(tree["slice"], depth)),
            "range": lambda tree, depth: range(*self._items(tree["range"], depth)),
            "complex": lambda tree, depth: complex(*self._items(tree["complex"], depth)),
            "framework": self._special,
            "objects": self._objects,
        }

    def value(self, tree: Tree, depth: int) -> Any:
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if not isinstance(tree, dict) or not tree or depth > 2 * MAX_DEPTH:
            raise _no_form(tree)
        form = next(iter(tree))
        try:
            if form in _SEQUENCES:
                return _SEQUENCES[form](self._items(tree[form], depth + 1))
            if form in self._forms:
                return self._forms[form](tree, depth + 1)
            return self._leaf(form, tree)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as err:
            if isinstance(err, DamagedSnapshotError):
                raise
            raise _no_form(tree) from err

    def _items(self, trees: Iterable[Tree], depth: int) -> list[Any]:
        if not isinstance(trees, list):
            raise _no_form(trees)
        return [self.value(item, depth) for item in trees]

    def _leaf(self, form: str, tree: dict[str, Any]) -> Any:
        content = tree[form]
        if form == "tensor":
            self._array(content)
            return self._framework(tree)
        if form == "array":
            return values_of(self._array(content))
        if form == "float":
            return _NUMBERS[content]
        if form == "int":
            return int(content)
        if form == "bytes":
            return base64.b64decode(content, validate=True)
        if form == "text":
            return base64.b64decode(content, validate=True).decode("utf-16-le", "surrogatepass")
        if form == "path":
            return Path(content)
        if form in ("opaque", "redacted"):
            return Opaque(str(content))
        raise _no_form(tree)

    def _array(self, key: object) -> Array:
        found = self._arrays.get(key) if isinstance(key, str) else None
        if found is None:
            raise DamagedSnapshotError(
                f"a snapshot refers to the array {key!r}, which it does not contain"
            )
        return found

    def _dict(self, tree: dict[str, Any], depth: int) -> dict[Any, Any]:
        return {self.value(k, depth): self.value(v, depth) for k, v in tree["dict"]}

    def _objects(self, tree: dict[str, Any], depth: int) -> Any:
        kind = np.dtype(tree["dtype"])
        if kind.kind not in "USO":
            raise _no_form(tree)
        flat = np.empty(len(tree["objects"]), dtype=kind)
        for place, item in enumerate(tree["objects"]):
            flat[place] = self.value(item, depth)
        return flat.reshape(tree["shape"])

    def _special(self, tree: dict[str, Any], depth: int) -> Any:
        fields = {name: self.value(field, depth) for name, field in tree["fields"].items()}
        return self._framework({**tree, "fields": fields})

    def _named(self, tree: dict[str, Any], depth: int) -> Any:
        cls = _loaded_class(tree["named"])
        if "member" in tree:
            known = isinstance(cls, type) and issubclass(cls, enum.Enum)
            members: Mapping[str, Any] = getattr(cls, "__members__") if known else {}  # noqa: B009
            return members.get(tree["member"], Opaque(f"{tree['named']}.{tree['member']}"))
        fields = {name: self.value(field, depth) for name, field in tree["fields"].items()}
        content = self._dict(tree, depth) if "dict" in tree else {}
        items = self._items(tree["list"], depth) if "list" in tree else []
        if cls is not None and _is_data(cls):
            made = _made(cls, fields, content, items)
            if made is not None:
                return made
        return items if "list" in tree else {**fields, **content}


def array_from(values: npt.NDArray[Any]) -> Array:
    """Convert an array for a snapshot to NumPy, sharing memory that is in C order."""
    ordered = np.asarray(values, order="C")
    data = ordered.reshape(-1).view(np.uint8)
    return Array(dtype=ordered.dtype.name, shape=ordered.shape, data=data)


def values_of(array: Array) -> npt.NDArray[Any]:
    """Return an array as a writable NumPy copy."""
    return np.frombuffer(array.data, dtype_of(array.dtype)).reshape(array.shape).copy()


def keys_of(tree: Tree) -> set[str]:
    """Return the keys of all arrays that a tree refers to."""
    found: set[str] = set()
    waiting: list[Any] = [tree]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            key = part.get("tensor", part.get("array"))
            if isinstance(key, str):
                found.add(key)
            waiting += [inner for inner in part.values() if isinstance(inner, dict | list)]
    return found


def _is_data(cls: type) -> bool:
    """Return whether objects of a class contain only data, so that they need no constructor.

    Classes with code that runs on deletion are excluded, because a file could then trigger this
    code.
    """
    if hasattr(cls, "__del__") or cls.__module__ in ("builtins", "types"):
        return False
    if issubclass(cls, tuple):
        return hasattr(cls, "_fields")
    if issubclass(cls, dict | list | UserDict) or dataclasses.is_dataclass(cls):
        return True
    return _is_plain_object(cls)


def _is_plain_object(cls: type) -> bool:
    """Return whether a class is written in Python, and its objects have only a `__dict__`."""
    new: Any = cls.__new__
    return (
        new is object.__new__
        and type(cls) is type
        and not any("__slots__" in vars(base) for base in cls.__mro__[:-1])
        and cls.__module__.partition(".")[0] not in sys.stdlib_module_names - {"__main__"}
        and not any("__call__" in vars(base) for base in cls.__mro__)
    )


def _made(
    cls: type, fields: dict[str, Any], content: dict[Any, Any], items: list[Any]
) -> Any | None:
    if issubclass(cls, tuple):
        names = getattr(cls, "_fields", ())
        return tuple.__new__(cls, [fields[name] for name in names])
    if not isinstance(cls.__new__, BuiltinFunctionType):
        return None
    made: Any = cls.__new__(cls)
    if isinstance(made, dict):
        put: Any = OrderedDict.__setitem__ if isinstance(made, OrderedDict) else dict.__setitem__
        for key, value in content.items():
            put(made, key, value)
    elif isinstance(made, list):
        list.extend(made, items)
    for name, value in fields.items():
        slot = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        if isinstance(slot, MemberDescriptorType):
            slot.__set__(made, value)
        else:  # bypasses any setter
            object.__getattribute__(made, "__dict__")[name] = value
    return made


def _loaded_class(name: object) -> type | None:
    """Return the class with a name if a loaded module has it; imports nothing."""
    parts = str(name).split(".")
    for end in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:end]))
        if module is None:
            continue
        found: Any = module
        for part in parts[end:]:
            found = vars(found).get(part) if isinstance(found, type(sys) | type) else None
        return found if isinstance(found, type) else None
    return None


def _text(value: str) -> Tree:
    try:
        value.encode()
    except UnicodeEncodeError:  # lone surrogates, which file names may contain
        return {"text": base64.b64encode(value.encode("utf-16-le", "surrogatepass")).decode()}
    return value


def _number_name(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _no_form(tree: object) -> DamagedSnapshotError:
    return DamagedSnapshotError(f"a snapshot has a value of an unknown form: {str(tree)[:80]}")
