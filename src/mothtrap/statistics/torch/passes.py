"""Assignment of tensors to passes: fast for all, slower for the few that need it.

A tensor is cut into a head of whole chunks, which is reduced in place (`chunks`), and a tail
shorter than a chunk, which is transferred with the results and reduced in float64 on the host. The
results decide which tensors need a second pass: relative to a pivot, or exact. If the package was
built with a compiler, plain host tensors take a single separate pass instead (`compiled`). Tensors
with one byte per element always do (`one_byte`).

Shape suffixes: N = rows, T = tensors, F = fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress

import numpy as np
import torch

from mothtrap.statistics.segments import summarize_segments
from mothtrap.statistics.summary import COLUMN, WIDTH, Floats, merge_segments
from mothtrap.statistics.torch import compiled, one_byte
from mothtrap.statistics.torch.chunks import (
    cancelled,
    chunk_length,
    chunk_rows,
    fits,
    passes_for,
    reduce_chunks,
    unreliable,
    unreliable_about_pivot,
)
from mothtrap.statistics.torch.exact import exact_rows
from mothtrap.statistics.torch.plain import to_host

# Keys are the positions of the tensors in the caller's list.
Tensors = Mapping[int, torch.Tensor]
Rows = dict[int, Floats]


def reduce_all(flats: Tensors, columns: frozenset[str]) -> Rows:
    """Reduce flat tensors to rows.

    Args:
        flats: real tensors of shape (N,), N > 0.
        columns: the columns to fill; `nan` or `zero` among them.

    Returns:
        float64 rows of shape (F,), by the keys of `flats`.
    """
    rows = one_byte.rows({i: f for i, f in flats.items() if f.element_size() == 1 and f.is_cpu})
    wider = {
        i: flat.to(torch.float32) if flat.element_size() == 1 else flat
        for i, flat in flats.items()
        if i not in rows
    }
    return rows | _reduce_wider(wider, columns) if wider else rows


def _reduce_wider(flats: Tensors, columns: frozenset[str]) -> Rows:
    places_T3 = compiled.places([*flats.values()])
    taken_T = places_T3[:, 2] >= 0
    direct = dict(compress(flats.items(), taken_T))
    rows = _direct_rows(direct, places_T3[taken_T], columns)
    others = dict(compress(flats.items(), ~taken_T))
    return rows | _reduce_in_passes(others, columns) if others else rows


def _direct_rows(flats: Tensors, places_T3: compiled.Integers, columns: frozenset[str]) -> Rows:
    """Return rows from the compiled part, and from the exact pass for unsupported tensors."""
    if not flats:
        return {}
    rows_TF, right_T = compiled.summaries(places_T3)
    rows = dict(zip(flats, rows_TF, strict=True))
    wrong = dict(compress(flats.items(), ~right_T))
    return rows | exact_rows(wrong, columns)


def _reduce_in_passes(flats: Tensors, columns: frozenset[str]) -> Rows:
    passes = passes_for(columns)
    heads: dict[int, torch.Tensor] = {}
    tails: dict[int, torch.Tensor] = {}
    wide: dict[int, torch.Tensor] = {}
    wholes: dict[int, torch.Tensor] = {}
    for index, flat in flats.items():
        count, chunk = flat.numel(), chunk_length(flat.device)
        length = count // chunk * chunk
        if passes == ("l2",) and flat.device.type != "cpu" and flat.is_floating_point():
            wholes[index] = flat
        elif length and not fits(flat.dtype):
            wide[index] = flat
        else:
            if length:
                heads[index] = flat[:length] if length < count else flat
            if length < count:
                tails[index] = flat[length:] if length else flat
    host = iter(
        to_host(
            [
                *(reduce_chunks(head, passes) for head in heads.values()),
                *foreach_norms(list(wholes.values())),
                *tails.values(),
            ]
        )
    )
    reduced = [next(host) for _ in heads]
    pieces = list(zip(heads, chunk_rows(reduced, passes, [*heads.values()], columns), strict=True))
    pieces += [(i, _norm_row(next(host), flat.numel())) for i, flat in wholes.items()]
    tail_rows = _tail_rows({i: next(host) for i in tails}, columns)
    rows = _merged([*pieces, *tail_rows.items()]) | exact_rows(wide, columns)
    _correct(rows, flats, heads, wholes, tail_rows, columns)
    return rows


def foreach_norms(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the norm of each floating-point tensor, float32, shape (1,), with few kernels.

    Only for accelerators: a CPU adds a whole tensor in float32, one element after another, with an
    error of 8e-3 for ten million equal elements.
    """
    alike: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, tensor in enumerate(tensors):
        alike.setdefault((tensor.device, tensor.dtype), []).append(index)
    norms: list[torch.Tensor] = list(tensors)
    for order in alike.values():
        # No public function returns the norms of a list of tensors; torch's clip_grad_norm_ uses
        # this one.
        group = torch._foreach_norm([tensors[i] for i in order], 2, dtype=torch.float32)
        for index, norm in zip(order, group, strict=True):
            norms[index] = norm.reshape(1)
    return norms


def _correct(
    rows: Rows,
    flats: Tensors,
    heads: Tensors,
    wholes: Tensors,
    tail_rows: Rows,
    columns: frozenset[str],
) -> None:
    """Replace the values in `rows` that the fast pass could not compute."""
    fast = [*heads, *wholes]
    if not fast:
        return
    rows_TF = np.stack([rows[i] for i in fast])
    wrong_T = unreliable(rows_TF, passes_for(columns))
    exact = [i for i, wrong in zip(fast, wrong_T, strict=True) if wrong]
    if "deviation_l2" in columns:
        small_T = cancelled(rows_TF) & ~wrong_T
        pivot = [i for i, small in zip(fast, small_T, strict=True) if small]
        exact += _correct_about_pivot(rows, {i: heads[i] for i in pivot}, tail_rows)
    rows |= exact_rows({i: flats[i] for i in exact}, columns)


def _correct_about_pivot(rows: Rows, heads: Tensors, tail_rows: Rows) -> list[int]:
    """Replace mean and deviation in `rows`; return the keys that need another pass."""
    if not heads:
        return []
    passes = passes_for({"mean", "deviation_l2"})
    host = to_host([reduce_chunks(head, passes, about_pivot=True) for head in heads.values()])
    chunks = chunk_rows(host, passes, [*heads.values()], {"deviation_l2"})
    pieces = list(zip(heads, chunks, strict=True))
    for i in heads.keys() & tail_rows.keys():
        tail_F = tail_rows[i].copy()
        tail_F[COLUMN["l2"]] = tail_F[COLUMN["deviation_l2"]]  # relative to its own mean
        pieces.append((i, tail_F))
    merged = _merged(pieces)
    pivot_TF = np.stack([merged[i] for i in heads])
    wrong_T = unreliable_about_pivot(pivot_TF, np.stack([rows[i] for i in heads]))
    for i in heads:
        for name in ("mean", "deviation_l2"):
            rows[i][COLUMN[name]] = merged[i][COLUMN[name]]
    return [i for i, wrong in zip(heads, wrong_T, strict=True) if wrong]


def _tail_rows(tails: Mapping[int, Floats], columns: frozenset[str]) -> Rows:
    if not tails:
        return {}
    starts_T = np.cumsum([0, *map(len, tails.values())], dtype=np.intp)[:-1]
    rows_TF = summarize_segments(np.concatenate(list(tails.values())), starts_T, columns)
    return dict(zip(tails, rows_TF, strict=True))


def _norm_row(norm: Floats, count: int) -> Floats:
    row_F = np.full(WIDTH, np.nan)
    row_F[[COLUMN["count"], COLUMN["nan"], COLUMN["inf"]]] = count, 0.0, 0.0
    row_F[COLUMN["l2"]] = norm[0]
    return row_F


def _merged(pieces: Iterable[tuple[int, Floats]]) -> Rows:
    """Merge the rows of each key: shape (F,) from pieces of shape (F,) or (N, F)."""
    by_key: dict[int, list[Floats]] = {}
    for key, rows in pieces:
        by_key.setdefault(key, []).append(np.atleast_2d(rows))
    if not by_key:
        return {}
    lengths = [sum(map(len, parts)) for parts in by_key.values()]
    starts_T = np.cumsum([0, *lengths], dtype=np.intp)[:-1]
    rows_NF = np.concatenate([part for parts in by_key.values() for part in parts])
    return dict(zip(by_key, merge_segments(rows_NF, starts_T), strict=True))
