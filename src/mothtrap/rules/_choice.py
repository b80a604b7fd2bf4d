"""Selection of layers by a regular expression that the user sets."""

from __future__ import annotations

import re

ANY_LAYER = ".*"


def is_chosen(layer: str, regex: str) -> bool:
    """Return whether a regular expression matches the path of a layer."""
    return regex == ANY_LAYER or re.search(regex, layer) is not None
