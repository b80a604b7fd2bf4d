"""Validation of run names, which become folders and parts of URLs."""

from __future__ import annotations

import os

from mothtrap.core.errors import ConfigError

_PARTING = frozenset("/\\\0")
MAX_NAME_BYTES = 200
"""A folder name may have 255 bytes; the rest is for suffixes such as `-2`."""


def check_name(name: str, label: str) -> None:
    """Check that a name is valid for a run.

    Args:
        name: name as given.
        label: description of the name in the message.

    Raises:
        ConfigError: the name is invalid.
    """
    # A name with a leading dot would create a folder that `mothtrap ls` ignores.
    fits = isinstance(name, str) and name and not name.startswith(".")
    if fits and len(os.fsencode(name)) > MAX_NAME_BYTES:
        raise ConfigError(
            f"{label} has {len(os.fsencode(name))} bytes; the name of a run may have at most "
            f"{MAX_NAME_BYTES}; choose a shorter one"
        )
    if not fits or _PARTING & set(name):
        raise ConfigError(
            f"{label} {name!r} is not a valid name of a run; expected a folder name that has no / "
            "or \\ and does not begin with a dot; set the folder of the runs with --runs-dir, or "
            "runs_dir"
        )
