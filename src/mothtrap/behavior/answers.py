"""Parts of rows and predictions in the containers of any framework.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from mothtrap.behavior.assertion import Mask, as_array


def take_rows(X: Any, rows_R: Mask) -> Any:
    """Return the selected rows, in the same container type as the input."""
    if isinstance(X, Mapping):
        return {name: take_rows(values, rows_R) for name, values in X.items()}
    if hasattr(X, "iloc"):
        return X.iloc[np.flatnonzero(rows_R)]
    if hasattr(X, "filter") and hasattr(X, "with_columns"):  # polars
        return X.filter(rows_R.tolist())
    if isinstance(X, list | tuple):
        return type(X)(each for each, taken in zip(X, rows_R.tolist(), strict=True) if taken)
    return X[np.flatnonzero(rows_R)]


def merged(before: Any, after: Any, rows_R: Mask) -> Any:
    """Return `before` with the predictions of some rows replaced.

    Args:
        before: Predictions for R rows; not changed.
        after: Predictions for R rows, or only for the rows of the mask.
        rows_R: Rows to replace.

    Raises:
        ValueError: `after` has a different number of rows.
    """
    count = len(after)
    if count == len(rows_R):
        after = take_rows(after, rows_R)
    elif count != int(rows_R.sum()):
        raise ValueError(f"expected {len(rows_R)} predictions, got {count}")
    at = np.flatnonzero(rows_R)
    if isinstance(before, list | tuple):
        places = dict(zip(at.tolist(), list(after), strict=True))
        return type(before)(places.get(i, each) for i, each in enumerate(before))
    found = before.clone() if hasattr(before, "clone") else copy.copy(before)
    if hasattr(found, "iloc"):
        found.iloc[at] = as_array(after)
    elif hasattr(found, "detach"):
        found[at] = after.to(found.dtype) if hasattr(after, "to") else found.new_tensor(after)
    else:
        new = as_array(after)
        array = np.array(found, np.result_type(found, new))  # else longer texts would be cut
        array[at] = new
        return array
    return found


def protected(predictions: Any) -> Any:
    """Return predictions that a check cannot modify; only NumPy arrays can be protected."""
    if type(predictions) is not np.ndarray:
        return predictions
    view = predictions.view()
    view.flags.writeable = False
    return view
