"""Helpers for rules that check tensors named by the user."""

from __future__ import annotations

from mothtrap.core import collections
from mothtrap.core.collections import Collection
from mothtrap.core.errors import ConfigError, NotApplicable, NotEnoughData
from mothtrap.core.needs import Need
from mothtrap.core.steps import Mode
from mothtrap.core.window import Matrix, Window

Column = tuple[Matrix, int]


def patterns(tensors: str) -> tuple[str, ...]:
    """Return the patterns in a threshold, which commas or spaces separate."""
    return tuple(tensors.replace(",", " ").split())


def needs_of(code: str, tensors: str, statistics: tuple[str, ...], every: int) -> tuple[Need, ...]:
    """Return the needs of a rule that checks named tensors; empty if no tensors are named.

    Args:
        code: Code of the rule.
        tensors: Patterns like those of collections, separated by commas or spaces.
        statistics: Statistics of these tensors.
        every: Capture every this many steps.

    Raises:
        ConfigError: A pattern can match no tensor.
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
    """Return the matrix and column of each named tensor, for training steps.

    Raises:
        NotApplicable: No tensors are named.
        NotEnoughData: None of the named tensors was captured.
    """
    named = patterns(tensors)
    if not named:
        raise NotApplicable('no tensors are selected; set, for example, tensors = "gradients:*"')
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
