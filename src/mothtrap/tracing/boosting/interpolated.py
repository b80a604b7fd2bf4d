"""Evaluation rows that lie exactly between training rows, as oversampling makes them.

Shape suffixes: R = training rows, E = evaluation rows, C = columns, N = nearest rows,
P = pairs of these.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

INSPECTED: Final = 96
"""Maximum number of inspected evaluation rows, evenly spaced."""
NEAREST: Final = 10
"""Number of the nearest training rows that are compared."""
MIN_COLUMNS: Final = 4
"""Smallest number of columns; with fewer, three rows are on a line by chance."""
MAX_COLUMNS: Final = 24
"""Maximum number of inspected columns: with 2,048 rows, about 5 ms."""
ON_A_LINE: Final = 1e-9
"""Largest distance of a cosine from 1 or -1; numbers in float32 reach about 1e-12."""
DISTINCT: Final = 0.5
"""Share of distinct numbers that makes a column continuous: no grid and no code."""
FLAT: Final = 0.9
"""Median absolute cosine above which all rows are near one line. Chosen by hand."""


def between(train_RC: npt.NDArray[np.float32], eval_RC: npt.NDArray[np.float32]) -> tuple[int, int]:
    """Count evaluation rows on a line through two of their nearest training rows.

    Args:
        train_RC: training rows.
        eval_RC: evaluation rows.

    Returns:
        The number of inspected rows, 0 if the columns do not permit it, and of rows on a line.
    """
    if train_RC.shape[1:] != eval_RC.shape[1:] or min(len(train_RC), len(eval_RC)) <= NEAREST:
        return 0, 0
    used = [c for c in range(train_RC.shape[1])[:MAX_COLUMNS] if _is_continuous(train_RC[:, c])]
    ours_RC = train_RC[:, used].astype(np.float64)
    places = np.unique(np.linspace(0, len(eval_RC) - 1, INSPECTED).astype(np.int64))
    theirs_EC = eval_RC[places][:, used].astype(np.float64)
    theirs_EC = theirs_EC[np.isfinite(theirs_EC).all(axis=1)]
    if len(used) < MIN_COLUMNS or not len(theirs_EC):
        return 0, 0
    mean_C, scale_C = ours_RC.mean(axis=0), ours_RC.std(axis=0)
    ours_RC, theirs_EC = (ours_RC - mean_C) / scale_C, (theirs_EC - mean_C) / scale_C
    square_ER = (ours_RC**2).sum(axis=1) - 2 * theirs_EC @ ours_RC.T  # less the row's own norm
    nearest_EN = np.argpartition(square_ER, NEAREST, axis=1)[:, :NEAREST]
    on_line_E = _are_on_a_line(ours_RC[nearest_EN] - theirs_EC[:, None])
    return len(on_line_E), int(on_line_E.sum())


def _is_continuous(values_R: npt.NDArray[np.float32]) -> bool:
    finite = bool(np.isfinite(values_R).all()) and bool((values_R != np.round(values_R)).any())
    return finite and len(np.unique(values_R)) > DISTINCT * len(values_R)


def _are_on_a_line(away_ENC: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return whether two differences to near rows, but not most of them, are parallel."""
    distance_EN = np.sqrt((away_ENC**2).sum(axis=2))
    direction_ENC = away_ENC / np.where(distance_EN > 0, distance_EN, 1.0)[:, :, None]
    cosines_ENN = np.abs(direction_ENC @ direction_ENC.transpose(0, 2, 1))
    first, second = np.triu_indices(away_ENC.shape[1], 1)
    cosines_EP = cosines_ENN[:, first, second]
    differ_EP = (away_ENC[:, first] != away_ENC[:, second]).any(axis=2)  # no copies of one row
    parallel_E: npt.NDArray[np.bool_] = (differ_EP & (cosines_EP > 1 - ON_A_LINE)).any(axis=1)
    return parallel_E & (np.median(cosines_EP, axis=1) <= FLAT)
