"""The token of the page, kept for the user so that an open page survives a restart."""

from __future__ import annotations

import hashlib

from mothtrap.store.remote import cache_folder
from mothtrap.store.user_secret import user_secret


def token_for(place: str) -> str:
    """Return the token of a location, which is stored in the user's cache.

    Args:
        place: the served location.
    """
    name = hashlib.sha256(place.encode()).hexdigest()[:16]
    return user_secret(cache_folder() / "ui" / f"{name}.token")
