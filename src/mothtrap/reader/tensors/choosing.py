"""Selection of a run's tensors by user-defined names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec
import numpy as np

from mothtrap.core import kinds as known_kinds
from mothtrap.core.collections import REGEX, Collection, Matcher, fits, matcher
from mothtrap.core.errors import ConfigError, UnknownNameError, nearest
from mothtrap.core.tensors import TensorInfo
from mothtrap.reader.files.commits import ModeName
from mothtrap.reader.files.parts import Span
from mothtrap.reader.tensors.captured_tensors import Tensor

_KIND = re.compile(r"[\w*?\[\]!-]*")
"""Pattern of a kind before a colon; names may contain colons, too."""


def all_tensors(span: Span) -> dict[str, Tensor]:
    """Return every tensor of a run by its identity, in order of first capture."""
    infos: dict[str, TensorInfo] = {}
    holders: dict[str, dict[int, None]] = {}
    for worker in span.workers:
        for view in span.views(worker):
            for info in view.tensors.values():
                infos.setdefault(info.identity, info)
                holders.setdefault(info.identity, {})[worker] = None
    return {name: Tensor(span, info, tuple(holders[name])) for name, info in infos.items()}


def captured_at(span: Span, worker: int, step: int | None, mode: ModeName | None) -> set[str]:
    """Return the identities of the tensors that a worker captured.

    Args:
        span: the run, or a part of it.
        worker: rank.
        step: step of the job; None means any.
        mode: mode of the steps; None means any.
    """
    found: set[str] = set()
    for part in span.parts(worker):
        for piece in (*part.view.statistics(), *part.view.raw()):
            keep_N = part.counts(piece.commit_N, mode)
            if step is not None:
                keep_N &= part.view.commits.steps[piece.commit_N] == step
            ids = np.unique(piece.column("tensor")[keep_N]).tolist()
            found |= {part.view.tensors[i].identity for i in ids if i in part.view.tensors}
    return found


def one_tensor(span: Span, name: str) -> Tensor:
    """Return the tensor with a name, or with a text form `kind:name`.

    If tensors of several kinds have the name, the first kind in the order of `core.kinds` counts: a
    weight before its gradient.

    Raises:
        UnknownNameError: there is no such tensor; the message suggests one.
    """
    known = all_tensors(span)
    if name in known:
        return known[name]
    same = [tensor for tensor in known.values() if tensor.name == name]
    if same:
        return min(same, key=lambda tensor: known_kinds.position(tensor.kind))
    kind, _, rest = name.partition(":")
    names = known if kind in known_kinds.names() else {t.name for t in known.values()}
    # The name exists, but the kind does not.
    names = {i: t for i, t in known.items() if t.name == rest} or names
    raise UnknownNameError(
        f"there is no tensor {name!r}{nearest(name, names)}; the run has {len(known)} tensors, "
        "`tensors()` returns them"
    )


def matching(pattern: str) -> Matcher:
    """Return a function that tests a pattern, written as in a collection, or a glob over names.

    Args:
        pattern: `gradients:blocks.0.*`, `gradients`, `re:...`, or without a kind a glob
            over tensor names and module paths.

    Raises:
        UnknownNameError: the regular expression is invalid, or the kind does not exist.
    """
    kind, colon, _ = pattern.partition(":")
    if pattern.startswith(REGEX):
        try:
            re.compile(pattern.removeprefix(REGEX))
        except re.error as err:
            raise UnknownNameError(f"{pattern!r} is not a valid regular expression: {err}") from err
    elif colon and not _KIND.fullmatch(kind):
        return by_glob(pattern)
    elif (
        colon
        and kind not in known_kinds.plurals()
        and not any(fnmatchcase(k, kind) for k in known_kinds.names())
    ):
        raise UnknownNameError(
            f"there is no kind {kind!r} of tensors"
            f"{nearest(kind, [*known_kinds.names(), *known_kinds.plurals()])}; "
            f"kinds: {', '.join(known_kinds.names())}"
        )
    elif not colon and pattern not in known_kinds.plurals():
        return by_glob(pattern)
    return matcher("", Collection(tensors=(pattern,)))


def by_glob(pattern: str) -> Matcher:
    """Return a function that tests a glob over tensor names and module paths."""
    return lambda info: fits(info.name, pattern) or fits(info.module, pattern)


def the_kind(name: str) -> str:
    """Return a kind by its name or by its built-in collection (`gradient`, `gradients`).

    Raises:
        UnknownNameError: there is no such kind; the message suggests one.
    """
    kind = known_kinds.plurals().get(name, name)
    if kind not in known_kinds.names():
        raise UnknownNameError(
            f"there is no kind {name!r} of tensors{nearest(name, known_kinds.names())}; "
            f"kinds: {', '.join(known_kinds.names())}"
        )
    return kind


def in_collection(name: str, own: Mapping[str, object]) -> Matcher:
    """Return a function that tests membership in a collection, built-in or defined in the run.

    Raises:
        UnknownNameError: there is no such collection; the message suggests one.
        ConfigError: the collection is invalid.
    """
    if name in own:
        return matcher(name, collection_of(name, own[name]))
    if name in known_kinds.plurals():
        return matcher(name, Collection())
    names = list(dict.fromkeys([*own, *known_kinds.plurals()]))
    raise UnknownNameError(
        f"there is no collection {name!r}{nearest(name, names)}; this run has: {', '.join(names)}"
    )


def collection_of(name: str, described: object) -> Collection:
    """Return a collection as described in a run.

    Raises:
        ConfigError: the collection is invalid.
    """
    try:
        return msgspec.convert(described, Collection, strict=False)
    except msgspec.ValidationError as err:
        raise ConfigError(
            f"the collection {name!r} of this run cannot be read: {err}; it may come from "
            "another version of mothtrap: choose by pattern or kind"
        ) from err
