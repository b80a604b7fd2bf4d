"""Attention weights of padded sequences: masks that hide the words, or the wrong axis.

Shape suffixes: R = rows, H = heads, Q = queries, K = keys, T = tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.layers.attention import attentions
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.core.facts.layers import PaddingWeights

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_ROWS = 16
"""Maximum number of inspected rows of a batch."""
LEAST_TOKENS = 4
"""Minimum length of sequences; chosen by hand."""
MAX_EXTRA = 1
"""Number of keys in front of the tokens, such as a vector for the whole sequence."""
HIDDEN = -1e4
"""Number added to a score from which a key is hidden; masks use -10000 and less."""
MASKS = ("attn_mask", "attn_bias")


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and counts of padded rows in the inspected ones."""

    rows: int = 0
    inverted: int = 0
    by_query: int = 0
    token: int = 0


class PaddingWeightObserver(LineObserver[_Line]):
    """Compares which keys get no attention with the padding of the tokens under a loss."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        with torch.no_grad():
            saved = SavedValues()
            tokens = list(_padded_tokens(root, saved))
            for node in attentions(root) if tokens else ():
                _add(line, node, tokens, saved)
        if line.is_complete and line.rows:
            self._job.recorder.notes.observe(
                PaddingWeights(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    token=line.token,
                    rows=line.rows,
                    inverted=line.inverted,
                    by_query=line.by_query,
                    location=place,
                )
            )


def _padded_tokens(root: Node, saved: SavedValues) -> Iterator[tuple[torch.Tensor, int]]:
    """Yield which embedded tokens are padding at the ends of rows, shape (R, T), and the token."""
    for node in graph.nodes([root]):
        if operation(node) != "embedding":
            continue
        indices = saved.of(node).get("indices")
        if indices is None or indices.ndim != 2 or indices.shape[1] < LEAST_TOKENS:
            continue
        last_R = indices[:, -1]
        token = int(last_R.mode().values)
        equal_RT = indices == token
        padding_RT = equal_RT.flip(1).long().cumprod(1).flip(1).bool()
        inside = bool((equal_RT & ~padding_RT).any())  # an ordinary token
        if not inside and bool((padding_RT.sum(1) > 1).any()):
            yield padding_RT, token


def _add(
    line: _Line, node: Node, tokens: list[tuple[torch.Tensor, int]], saved: SavedValues
) -> None:
    """Add the padded rows of one attention to the counts of a line."""
    shown = _shown(node, saved)
    if shown is None or shown.shape[-1] < LEAST_TOKENS:
        return
    keys = shown.shape[-1]
    fitting = [
        (padding_RT, token)
        for padding_RT, token in tokens
        if 0 <= keys - padding_RT.shape[1] <= MAX_EXTRA and len(shown) % len(padding_RT) == 0
    ]
    if len(fitting) != 1:
        return
    [(padding_RT, token)] = fitting
    rows, extra = len(padding_RT), keys - padding_RT.shape[1]
    weights_RQK = shown.reshape(rows, -1, *shown.shape[-2:])[:MAX_ROWS, 0]
    weights_RQK = weights_RQK[..., extra:]
    padding_RT = padding_RT[:MAX_ROWS]
    counts_R = padding_RT.any(1) & ~padding_RT.all(1)
    seen_RK = (weights_RQK != 0).any(1)
    inverted_R = counts_R & (seen_RK == padding_RT).all(1)
    line.token = token
    line.rows += int(counts_R.sum())
    line.inverted += int(inverted_R.sum())
    if weights_RQK.shape[1] == keys and weights_RQK.is_floating_point():
        by_query_R = _hides_queries(weights_RQK[:, extra:], padding_RT)
        line.by_query += int((counts_R & by_query_R).sum())


def _hides_queries(weights_RQK: torch.Tensor, padding_RT: torch.Tensor) -> torch.Tensor:
    """Return the rows in which padding queries attend to all keys equally, and words to all keys.

    Args:
        weights_RQK: attention weights.
        padding_RT: which keys and queries are padding.
    """
    equal_RQ = weights_RQK.amax(-1) == weights_RQK.amin(-1)
    all_RQ = weights_RQK.amin(-1) > 0
    wrong_RQ = torch.where(padding_RT, equal_RQ, all_RQ & ~equal_RQ)
    return wrong_RQ.all(1)


def _shown(node: Node, saved: SavedValues) -> torch.Tensor | None:
    """Return attention weights, or whether a mask shows a key; the last axes are queries and keys.

    The first axis is that of the rows, perhaps merged with the heads.
    """
    values = saved.of(node)
    if "result" in values and values["result"].ndim in (3, 4):
        return values["result"]
    mask = next((values[name] for name in MASKS if name in values), None)
    if mask is None or mask.ndim not in (3, 4):
        return None
    return mask if mask.dtype == torch.bool else mask > HIDDEN
