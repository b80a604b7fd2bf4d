"""Invariants of healthy runs, as a file that people can read and change.

The file is TOML: one table `[[invariant]]` for each, whose `kind` is the type of the condition::

    [[invariant]]
    kind = "range"
    of = "l2 of gradient"       # a statistic of tensors of a kind, or a scalar: "lr:Adam"
    tensors = ["*"]             # names or globs
    at_most = 120.0
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, get_args

import msgspec

from mothtrap.core import contracts, kinds
from mothtrap.core.collections import Statistic
from mothtrap.core.errors import ConfigError, nearest

VERSION = 1
SHIPPED = Path(__file__).parents[1] / "invariants"
"""Folder of the files shipped with mothtrap, each referred to by its name only."""

_WORDS = {
    "l2": "the norm",
    "nan": "the number of NaNs",
    "inf": "the number of Infs",
    "update_ratio": "the relative change in a step",
    "lr": "the learning rate",
    "loss": "the loss",
    "micro_batches": "the number of backward passes in a step",
    "stale_gradient": "the flag for gradients that were not cleared",
    "gradient_state": "the state of the gradients (0 fresh, 1 unchanged, 2 absent)",
}
_LINE = 92
GLOB_SIGNS = frozenset("*?[")

# Statistics with one number for each tensor and step.
STATISTICS = tuple(s for s in get_args(Statistic) if s not in ("all", "exponents", "quantiles"))


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Condition on a scalar, or on a statistic of tensors, at each train step.

    `of` is a statistic of tensors of a kind (`l2 of gradient`), or a scalar: `lr` for every
    optimizer, or `lr:Adam` for one. `tensors` are names of tensors or globs. Steps that no
    optimizer applied are left out. Violations of fewer than `patience` steps are ignored.
    """

    of: str
    tensors: tuple[str, ...] = ("*",)
    patience: int = 1

    def __post_init__(self) -> None:
        """Raise ValueError if `of` names an unknown statistic or kind."""
        if self.statistic is not None:
            kind, statistic = self.statistic
            for name, known in ((statistic, STATISTICS), (kind, kinds.names())):
                if name not in known:
                    raise ValueError(
                        f"of = {self.of!r}: there is no {name!r}{nearest(name, known)}; "
                        "expected a statistic of a kind of tensors, such as 'l2 of gradient'"
                    )

    @property
    def statistic(self) -> tuple[str, str] | None:
        """Kind and statistic of the tensors; None for a scalar."""
        statistic, of, kind = self.of.partition(" of ")
        return (kind, statistic) if of else None

    def taken(self, names: Sequence[str]) -> list[int]:
        """Return the positions of the matching tensors among some names."""
        exact = frozenset(self.tensors)
        globs = [pattern for pattern in self.tensors if GLOB_SIGNS & set(pattern)]
        return [
            place
            for place, name in enumerate(names)
            if name in exact or any(fnmatchcase(name, glob) for glob in globs)
        ]

    @property
    def exceptions(self) -> str:
        """Return the allowed exceptions in words."""
        return f" (exceptions last fewer than {self.patience} steps)" if self.patience > 1 else ""

    @property
    def named(self) -> tuple[str, ...]:
        """Names of tensors that are listed individually."""
        return tuple(name for name in self.tensors if not GLOB_SIGNS & set(name))

    @property
    def subject(self) -> str:
        """Return the subject in words."""
        if self.statistic is None:
            name, _, owner = self.of.partition(":")
            return _WORDS.get(name, name) + (f" of {owner}" if owner else "")
        kind, statistic = self.statistic
        return f"{_WORDS.get(statistic, statistic)} of {self._tensors(kind)}"

    @property
    def whose(self) -> str:
        """Return the owners of the value in words: tensors, or the scalar itself."""
        return self.subject if self.statistic is None else self._tensors(self.statistic[0])

    def _tensors(self, kind: str) -> str:
        if self.tensors == ("*",):
            return f"every {kind}"
        if len(self.tensors) == 1:
            return f"the {kind} {self.tensors[0]}"
        return f"each of {len(self.tensors)} {kind}{'es' if kind.endswith('s') else 's'}"


class Range(Statement, frozen=True, kw_only=True, tag="range", tag_field="kind"):
    """The value is finite and within bounds; `above` is exclusive, the other bounds inclusive."""

    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    @property
    def sentence(self) -> str:
        """Return the invariant as a sentence."""
        if self.at_least is not None and self.at_least == self.at_most:
            return f"{self.subject} is always {self.at_least:g}"
        bounds = (("above", self.above), ("at least", self.at_least), ("at most", self.at_most))
        told = " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)
        return f"{self.subject} is {told or 'finite'}"


class Present(Statement, frozen=True, kw_only=True, tag="present", tag_field="kind"):
    """There is a value at each step; with `at`, only at steps that have that scalar."""

    at: str = ""

    @property
    def sentence(self) -> str:
        """Return the invariant as a sentence."""
        steps = f"each step of {self.at.partition(':')[2] or self.at}" if self.at else "each step"
        return f"{self.whose} has a value at {steps}"


class Constant(Statement, frozen=True, kw_only=True, tag="constant", tag_field="kind"):
    """The value stays equal to its first value."""

    @property
    def sentence(self) -> str:
        """Return the invariant as a sentence."""
        return f"{self.subject} never changes"


class Changes(Statement, frozen=True, kw_only=True, tag="changes", tag_field="kind"):
    """The value never stays the same for `within` steps."""

    within: int

    @property
    def sentence(self) -> str:
        """Return the invariant as a sentence."""
        return f"{self.subject} changes within {self.within} steps"


class Direction(Statement, frozen=True, kw_only=True, tag="direction", tag_field="kind"):
    """The value never rises, or never falls."""

    never: Literal["rises", "falls"]

    @property
    def sentence(self) -> str:
        """Return the invariant as a sentence."""
        return f"{self.subject} never {self.never}"


class Dtype(Statement, frozen=True, kw_only=True, tag="dtype", tag_field="kind"):
    """The tensors have one of these types, e.g. `float32`."""

    dtypes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Return the invariant as a sentence."""
        return f"the type of {self.whose} is {' or '.join(self.dtypes)}"


Invariant = Range | Present | Constant | Changes | Direction | Dtype


class Learned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of an invariants file: the invariants, and the names of their runs."""

    version: int
    learned_from: tuple[str, ...] = ()
    invariant: tuple[Invariant | contracts.Entry, ...] = ()


def read(source: str) -> tuple[Invariant, ...]:
    """Read the invariants of runs; raises the same errors as `read_file`."""
    return tuple(one for one in read_file(source).invariant if isinstance(one, Statement))


def read_contract(source: str) -> tuple[contracts.Entry, ...]:
    """Read the invariants of model and data from `mothtrap check`; raises as `read_file`."""
    found = read_file(source).invariant
    return tuple(one for one in found if not isinstance(one, Statement))


def read_file(source: str) -> Learned:
    """Read an invariants file.

    Args:
        source: a path, or the name of a file that comes with mothtrap (`pytorch`).

    Raises:
        ConfigError: the file does not exist or is invalid; the message gives the reason.
    """
    path = find(source)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        learned = msgspec.convert(values, type=Learned)
    except OSError as err:
        known = shipped()
        raise ConfigError(
            f"invariants: {source!r} cannot be read "
            f"({err.strerror or err}){nearest(source, known)}; expected a file from `mothtrap "
            f"learn`, or a set that comes with mothtrap: {', '.join(known)}"
        ) from err
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as err:
        raise ConfigError(
            f"{path} is not a file of invariants: {err}; expected a file from `mothtrap learn`"
        ) from err
    if learned.version != VERSION:
        raise ConfigError(
            f"{path}: format version {learned.version} is not supported, only {VERSION}; run "
            "`mothtrap learn` again with this version of mothtrap"
        )
    return learned


def find(source: str) -> Path:
    """Return the path of an invariants file; a bare name is searched in `SHIPPED` first."""
    own = SHIPPED / f"{source}.toml"
    return own if source in shipped() else Path(source)


def shipped() -> tuple[str, ...]:
    """Return the names of the invariants files shipped with mothtrap."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


def text(invariants: Sequence[Invariant | contracts.Entry], learned_from: Sequence[str]) -> str:
    """Return a file with these invariants, each below a sentence that describes it."""
    lines = [
        "# Invariants of healthy runs. Delete invariants that do not have to hold.",
        f"version = {VERSION}",
        f"learned_from = {_list(learned_from, len('learned_from = '))}",
    ]
    for invariant in invariants:
        exceptions = invariant.exceptions if isinstance(invariant, Statement) else ""
        lines += ["", f"# {invariant.sentence}{exceptions}", "[[invariant]]"]
        values = msgspec.to_builtins(invariant)
        for key, value in values.items():
            if value not in (None, "") and not _is_left_out(invariant, key):
                lines.append(f"{key} = {_value(value, len(key) + 3)}")
    return "\n".join(lines) + "\n"


def save_contract(file: str, entries: Sequence[contracts.Entry], name: str) -> int:
    """Write layers and inputs to an invariants file, keeping its invariants of runs.

    Args:
        file: a new file, or a file written by `mothtrap learn` or `mothtrap check`.
        entries: entries that replace those in the file.
        name: name of the run from which they were learned.

    Returns:
        The number of entries.

    Raises:
        ConfigError: the file exists and is not an invariants file.
    """
    path = Path(file)
    known = read_file(file) if path.exists() else Learned(version=VERSION)
    kept = [one for one in known.invariant if isinstance(one, Statement)]
    names = dict.fromkeys((*known.learned_from, name)) if kept else (name,)
    path.write_text(text([*kept, *entries], tuple(names)), encoding="utf-8")
    return len(entries)


def _is_left_out(invariant: Invariant | contracts.Entry, key: str) -> bool:
    """Return whether a key has no information."""
    if not isinstance(invariant, Statement):
        return False
    without_tensors = key == "tensors" and invariant.statistic is None
    return without_tensors or (key == "patience" and invariant.patience == 1)


def _value(value: object, indent: int) -> str:
    if isinstance(value, list | tuple) and any(isinstance(part, int) for part in value):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return _list([str(part) for part in value], indent)
    return json.dumps(value, ensure_ascii=False)


def _list(parts: Sequence[str], indent: int) -> str:
    quoted = [json.dumps(part, ensure_ascii=False) for part in parts]
    whole = f"[{', '.join(quoted)}]"
    if indent + len(whole) <= _LINE:
        return whole
    lines = [""]
    for part in quoted:
        if len(lines[-1]) + len(part) > _LINE:
            lines.append("")
        lines[-1] += f" {part}," if lines[-1] else f"    {part},"
    return "\n".join(["[", *lines, "]"])
