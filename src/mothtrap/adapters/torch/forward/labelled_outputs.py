"""Class scores of evaluations without a loss, compared with the labels that the script holds."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import torch

from mothtrap.adapters.torch.job.readable import is_plain, is_readable
from mothtrap.adapters.torch.losses import evaluated_losses, loss_values
from mothtrap.adapters.torch.losses.evaluated_losses import Site
from mothtrap.adapters.torch.losses.evaluated_predictions import MAX_CLASSES, MAX_ROWS
from mothtrap.core.facts.evaluations import LabelledOutputs
from mothtrap.core.facts.losses import TargetSample
from mothtrap.core.steps import Mode
from mothtrap.tracing.source import frames
from mothtrap.tracing.source.held_arrays import arrays_in_reach
from mothtrap.tracing.source.syntax import parsed

FIRST = 4
"""Number of first evaluations that are inspected; later ones are at powers of two."""
MAX_LOOKS, MAX_SITES = 64, 4
"""Maximum number of inspected forward passes of a call site, about 0.1 ms each, and of sites of an
evaluation: a script often evaluates its training and its test data one after the other.
"""
LEAST_CLASSES = 3
MAX_VARIABLES = 8
SELECTIONS = frozenset({"argmax", "max", "topk", "sort", "argsort", "round"})
"""Functions that turn scores into predicted classes."""
AGREES = 0.5
"""Share of rows from which the scores agree with a variable; chosen by hand."""


@dataclass(slots=True)
class _Site:
    """Evaluated rows of one call site, and its predictions by the values of each variable."""

    rows: int = 0
    looks: int = 0
    tables: dict[str, torch.Tensor] = field(default_factory=dict)


class LabelledOutputObserver:
    """Counts the predictions of an evaluation by the integers in the script's variables.

    A script that computes only an accuracy calls no loss, so nothing shows which labels it uses.
    """

    def __init__(self) -> None:
        self._number = 0
        self._sites: dict[Site, _Site] = {}

    def returned(self, scores: torch.Tensor) -> None:
        """Count the predictions of one forward pass, if due."""
        if scores.ndim != 2 or not scores.is_floating_point() or not self._is_due():
            return
        rows, classes = scores.shape
        if not LEAST_CLASSES <= classes <= MAX_CLASSES or rows < 2 or not is_readable(scores):
            return
        frame, place = frames.user_frame(), evaluated_losses.user_site()
        if frame is None or (place not in self._sites and len(self._sites) >= MAX_SITES):
            return
        site = self._sites.setdefault(place, _Site())
        if site.rows >= MAX_ROWS or site.looks >= MAX_LOOKS:
            return
        site.looks, site.rows = site.looks + 1, site.rows + rows
        held = list(_labels(frame, rows, classes))
        if not held:
            return
        predicted = scores.detach()[:MAX_ROWS].argmax(1).to("cpu")
        for name, labels in held:
            if name not in site.tables and len(site.tables) >= MAX_VARIABLES:
                continue
            counts = loss_values.counted(predicted, labels, classes)
            table = torch.tensor(counts).reshape(classes, classes)
            known = site.tables.get(name)
            if known is None or known.shape == table.shape:
                site.tables[name] = table if known is None else known + table

    def closed(self, step: int) -> list[LabelledOutputs]:
        """End the evaluation; return the variable that the scores of each site predict best."""
        sites, self._sites = self._sites, {}
        self._number += bool(sites) or not self._is_due()
        return [_fact(place, one, step) for place, one in sites.items() if one.tables]

    def _is_due(self) -> bool:
        number = self._number
        return number < FIRST or number & (number - 1) == 0


def _fact(place: Site, site: _Site, step: int) -> LabelledOutputs:
    lines = [frames._place(filename, line) for filename, line, _ in place]
    name = max(site.tables, key=lambda one: _fit(site.tables[one]))
    table = site.tables[name]
    return LabelledOutputs(
        step=step,
        mode=Mode.EVAL,
        site=" from ".join(lines),
        variable=name,
        targets=TargetSample(
            dtype="int64",
            count=int(table.sum()),
            confusion=tuple(table.reshape(-1).tolist()),
        ),
        location=lines[0] if lines else None,
    )


def _fit(table: torch.Tensor) -> tuple[bool, int]:
    """Return whether the scores agree with a variable, and how well they predict it.

    Args:
        table: counts of its values by predicted class, shape (K, K).
    """
    agrees = float(table.trace()) >= AGREES * float(table.sum())
    return agrees, int(table.max(dim=1).values.sum())


def _labels(frame: FrameType, rows: int, classes: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield variables with one class number per row, except for predicted classes."""
    predicted = _predicted(frame.f_code.co_filename)
    for name, value in arrays_in_reach(frame, depth=1):
        if name.partition("[")[0] in predicted or tuple(value.shape) not in ((rows,), (rows, 1)):
            continue
        labels = _integers(value)
        if labels is not None and bool(((labels >= 0) & (labels < classes)).all()):
            yield name, labels


def _integers(value: Any) -> torch.Tensor | None:
    """Return the first values of an array of integers, on the host."""
    if type(value) is np.ndarray and value.dtype.kind in "iu":
        return torch.from_numpy(value.reshape(-1)[:MAX_ROWS].astype(np.int64))
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.int64, torch.int32):
        return None
    if not is_plain(value) or not is_readable(value):
        return None
    return value.detach().reshape(-1)[:MAX_ROWS].to("cpu", torch.int64)


@functools.lru_cache(maxsize=16)
def _predicted(filename: str) -> frozenset[str]:
    """Return the variables of a file that are assigned the result of a selection of classes."""
    tree = parsed(filename)
    found = set[str]()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Assign) and any(map(_selects, ast.walk(node.value))):
            for target in node.targets:
                found |= {one.id for one in ast.walk(target) if isinstance(one, ast.Name)}
    return frozenset(found)


def _selects(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return name in SELECTIONS
