"""Which tensors of a run a user means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

import msgspec
import numpy as np

from mothtrap.core.collections import BUILT_IN, REGEX, Collection, Matcher, matcher
from mothtrap.core.errors import ConfigError, UnknownNameError, nearest
from mothtrap.core.tensors import KINDS, Kind, TensorInfo
from mothtrap.reader.commits import ModeName
from mothtrap.reader.parts import Span
from mothtrap.reader.tensors import Tensor

_KIND = re.compile(r"[\w*?\[\]!-]*")
"""What can stand for kinds before a colon; names may hold colons, too."""


def all_tensors(span: Span) -> dict[str, Tensor]:
    """Return every tensor of a run by its identity, in the order in which they were seen."""
    infos: dict[str, TensorInfo] = {}
    holders: dict[str, dict[int, None]] = {}
    for worker in span.workers:
        for view in span.views(worker):
            for info in view.tensors.values():
                infos.setdefault(info.identity, info)
                holders.setdefault(info.identity, {})[worker] = None
    return {name: Tensor(span, info, tuple(holders[name])) for name, info in infos.items()}


def captured_at(span: Span, worker: int, step: int | None, mode: ModeName | None) -> set[str]:
    """Return the identities of what a worker captured.

    Args:
        span: the run, or a part of it.
        worker: rank.
        step: of the job; None means any.
        mode: of the steps; None means any.
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
    """Return the tensor of a name, or of a text form `kind:name`.

    Where tensors of several kinds bear the name, the first in the order of
    `core.tensors.KINDS` is meant: a weight before its gradient.

    Raises:
        UnknownNameError: there is none; names the nearest.
    """
    known = all_tensors(span)
    if name in known:
        return known[name]
    same = [tensor for tensor in known.values() if tensor.name == name]
    if same:
        return min(same, key=lambda tensor: KINDS.index(tensor.kind))
    names = known if name.partition(":")[0] in KINDS else {t.name for t in known.values()}
    raise UnknownNameError(
        f"there is no tensor {name!r}{nearest(name, names)}; the run has {len(known)} tensors, "
        "`tensors()` returns them"
    )


def matching(pattern: str) -> Matcher:
    """Return the test of a pattern, written as in a collection, or a glob over names.

    Args:
        pattern: `gradients:blocks.0.*`, `gradients`, `re:...`, or without a kind a glob
            over tensor names and module paths.

    Raises:
        UnknownNameError: the regular expression is none, or the kind does not exist.
    """
    kind, colon, _ = pattern.partition(":")
    if pattern.startswith(REGEX):
        try:
            re.compile(pattern.removeprefix(REGEX))
        except re.error as err:
            raise UnknownNameError(f"{pattern!r} is no regular expression: {err}") from err
    elif colon and not _KIND.fullmatch(kind):
        return by_glob(pattern)
    elif colon and kind not in BUILT_IN and not any(fnmatchcase(k, kind) for k in KINDS):
        raise UnknownNameError(
            f"there is no kind {kind!r} of tensors{nearest(kind, [*KINDS, *BUILT_IN])}; "
            f"kinds: {', '.join(KINDS)}"
        )
    elif not colon and pattern not in BUILT_IN:
        return by_glob(pattern)
    return matcher("", Collection(tensors=(pattern,)))


def by_glob(pattern: str) -> Matcher:
    """Return the test of a glob over tensor names and module paths."""
    return lambda info: (
        # Names may hold brackets, which a glob would take for a set of characters.
        pattern in (info.name, info.module)
        or fnmatchcase(info.name, pattern)
        or fnmatchcase(info.module, pattern)
    )


def of_kind(kind: Kind) -> Matcher:
    """Return the test of a kind.

    Raises:
        UnknownNameError: there is no such kind; names the nearest.
    """
    if kind not in KINDS:
        raise UnknownNameError(
            f"there is no kind {kind!r} of tensors{nearest(kind, KINDS)}; kinds: {', '.join(KINDS)}"
        )
    return lambda info: info.kind == kind


def in_collection(name: str, config: Mapping[str, object]) -> Matcher:
    """Return the test of a collection, built-in or of the run's own configuration.

    Raises:
        UnknownNameError: there is no such collection; names the nearest.
    """
    described = config.get("collections")
    own = described if isinstance(described, Mapping) else {}
    if name not in own:
        if name in BUILT_IN:
            return matcher(name, Collection())
        names = [*own, *BUILT_IN]
        raise UnknownNameError(
            f"there is no collection {name!r}{nearest(name, names)}; "
            f"this run has: {', '.join(names)}"
        )
    try:
        return matcher(name, msgspec.convert(own[name], Collection, strict=False))
    except msgspec.ValidationError as err:
        raise ConfigError(
            f"the collection {name!r} of this run cannot be understood: {err}; it may be of "
            "another version of mothtrap: choose by pattern or kind"
        ) from err
