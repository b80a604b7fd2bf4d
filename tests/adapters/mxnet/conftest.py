"""Imports MXNet before warnings become errors: it uses names that numpy deprecates."""

from __future__ import annotations

import contextlib
import warnings

with warnings.catch_warnings(), contextlib.suppress(ImportError):
    warnings.simplefilter("ignore")
    import mxnet  # noqa: F401
