"""Copy of a script's folder, in which the script can run without touching the user's files."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from mothtrap.core.errors import ReplayError

MAX_BYTES = 500 << 20
"""Maximum size of a folder that is copied. Chosen by hand: the copy takes seconds."""


def copy_folder(folder: Path, target: Path, runs: Path) -> None:
    """Copy the folder of a script, without runs, hidden folders, and environments.

    Args:
        folder: folder of the script.
        target: path that does not exist yet.
        runs: folder of the runs.

    Raises:
        ReplayError: the folder is larger than `MAX_BYTES`.
    """

    def left_out(place: str, names: list[str]) -> set[str]:
        here = Path(place)
        return {
            name
            for name in names
            if name.startswith(".")
            or name == "__pycache__"
            or (here / name).resolve() == runs.resolve()
            or (here / name / "pyvenv.cfg").exists()
        }

    files = [one for one in folder.rglob("*") if one.is_file()]
    if sum(one.stat().st_size for one in files) > MAX_BYTES:
        raise ReplayError(f"{folder} has more than {MAX_BYTES >> 20} MB, so it is not copied")
    shutil.copytree(folder, target, ignore=left_out, symlinks=True)


def command_in(command: Sequence[str], folder: Path, copy: Path) -> tuple[str, ...]:
    """Return a command that runs the copy of its script."""
    return tuple(word.replace(str(folder), str(copy)) for word in command)
