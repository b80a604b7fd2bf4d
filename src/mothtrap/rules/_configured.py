"""Shared parts of the rules that judge tensors named by users."""

from __future__ import annotations

from mothtrap.core import collections
from mothtrap.core.collections import Collection
from mothtrap.core.errors import ConfigError, NotApplicable, NotEnoughData
from mothtrap.core.needs import Need
from mothtrap.core.steps import Mode
from mothtrap.core.window import Matrix, Window

Column = tuple[Matrix, int]


def patterns(tensors: str) -> tuple[str, ...]:
    """Return the patterns that stand in a threshold, apart by commas or blanks."""
    return tuple(tensors.replace(",", " ").split())


def needs_of(code: str, tensors: str, statistics: tuple[str, ...], every: int) -> tuple[Need, ...]:
    """Return what a rule needs that judges the tensors named; nothing where none are.

    Args:
        code: of the rule.
        tensors: patterns as those of collections, apart by commas or blanks.
        statistics: of these tensors.
        every: one step in so many.

    Raises:
        ConfigError: a pattern that can match no tensor.
    """
    named = patterns(tensors)
    if not named:
        return ()
    collection = Collection(tensors=named)
    complaint = collections.complaint("", collection)
    if complaint:
        raise ConfigError(f"configuration: [rules.{code}] {complaint}")
    kinds = collections.kinds("", collection)
    return (Need(kinds=kinds, statistics=statistics, tensors=named, every=every),)


def named_columns(window: Window, tensors: str, statistic: str) -> list[Column]:
    """Return matrix and column of every tensor named, of train steps.

    Raises:
        NotApplicable: none are named.
        NotEnoughData: none of those named was captured.
    """
    named = patterns(tensors)
    if not named:
        raise NotApplicable('no tensors are named: set tensors = "gradients:*", say')
    matches = collections.matcher("", Collection(tensors=named))
    found = [
        (matrix, column)
        for matrix in window.matrices
        if matrix.statistic == statistic and matrix.mode is Mode.TRAIN
        for column, tensor in enumerate(matrix.tensors)
        if matches(tensor) and matrix.present_ST[:, column].any()
    ]
    if not found:
        raise NotEnoughData(f"no tensor that matches {', '.join(named)} was captured")
    return found
