"""Columns of a table that give a target away, each alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch

MIN_ROWS = 16
"""Rows without which nothing is said; chosen by hand."""
MIN_COLUMNS, MAX_COLUMNS = 3, 1024
MAX_ROWS = 1024
MAX_CLASSES = 32
SEPARATION = 20.0
"""Distance of the nearest two classes in a column, in standard deviations within a class,
from which on the column is called the label itself; chosen by hand: a good feature has 5."""
CORRELATION, OTHERS = 0.999, 0.98
"""With a target of numbers, from which on a column is called its copy, and below which all
other columns must stay: neighboring values of a smooth series are alike, and so are its last
ones and the next. Chosen by hand."""


def telling_columns(
    inputs: Sequence[torch.Tensor], target: torch.Tensor
) -> tuple[tuple[int, ...], int] | None:
    """Find columns that tell the target.

    Args:
        inputs: what a model was called with; the first table (rows, columns) of floats
            counts. A small image or series is a row of numbers too.
        target: one number or label a row.

    Returns:
        The columns and how many there are; None where there is no such table or target.
    """
    table = next((x for x in inputs if _is_table(x, target)), None)
    if table is None:
        return None
    x_NF = table[:MAX_ROWS].detach().flatten(1).to("cpu").double()
    y_N = target.reshape(-1)[:MAX_ROWS].double()
    if not bool(x_NF.isfinite().all()) or not bool(y_N.isfinite().all()):
        return None
    values, place_N, size_K = torch.unique(y_N, return_inverse=True, return_counts=True)
    if len(values) < 2:
        return None
    if len(values) <= min(MAX_CLASSES, len(y_N) // 4):
        told_F = _separates(x_NF, place_N, size_K)
    elif target.is_floating_point():
        told_F = _correlates(x_NF, y_N)
    else:
        return None
    return tuple(told_F.nonzero().flatten().tolist()), x_NF.shape[1]


def _is_table(x: torch.Tensor, target: torch.Tensor) -> bool:
    return (
        x.is_floating_point()
        and x.ndim >= 2
        and x.shape[0] == target.numel() >= MIN_ROWS
        and MIN_COLUMNS <= x[0].numel() <= MAX_COLUMNS
    )


def _separates(x_NF: torch.Tensor, place_N: torch.Tensor, size_K: torch.Tensor) -> torch.Tensor:
    """Columns that set classes apart, where together they do so for all but one class.

    One column may hold the label itself, or one each whether it is a certain class.
    """
    indicator_NK = torch.nn.functional.one_hot(place_N, len(size_K)).to(x_NF.dtype)
    mean_KF = (indicator_NK.t() @ x_NF) / size_K[:, None]
    inside_F = (x_NF - mean_KF[place_N]).square().mean(0).sqrt()
    ordered_KF = mean_KF.sort(0).values
    gap_F = (ordered_KF[1:] - ordered_KF[:-1]).min(0).values
    whole_F = (gap_F > SEPARATION * inside_F) & (gap_F > 1e-6)
    if bool(whole_F.any()) or len(size_K) == 2:
        return whole_F
    count, total_F, square_F = len(x_NF), x_NF.sum(0), x_NF.square().sum(0)
    rest_KF = (total_F - size_K[:, None] * mean_KF) / (count - size_K)[:, None]
    within_KF = square_F - size_K[:, None] * mean_KF**2 - (count - size_K)[:, None] * rest_KF**2
    spread_KF = (within_KF.clamp(min=0) / count).sqrt()
    apart_KF = ((mean_KF - rest_KF).abs() > SEPARATION * spread_KF) & (
        ordered_KF[-1] > ordered_KF[0]
    )
    if int(apart_KF.any(1).sum()) < len(size_K) - 1:
        return torch.zeros_like(whole_F)
    return apart_KF.any(0)


def _correlates(x_NF: torch.Tensor, y_N: torch.Tensor) -> torch.Tensor:
    x_NF, y_N = x_NF - x_NF.mean(0), y_N - y_N.mean()
    scale_F = x_NF.square().sum(0).sqrt() * y_N.square().sum().sqrt()
    alike_F = torch.where(scale_F > 0, (x_NF.t() @ y_N).abs() / scale_F, 0.0)
    told_F = alike_F > CORRELATION
    if bool(((alike_F > OTHERS) & ~told_F).any()):
        return torch.zeros_like(told_F)
    return told_F
