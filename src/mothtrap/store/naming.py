"""Name of a run in commands that are shown to people."""

from __future__ import annotations

import os
from pathlib import Path

from mothtrap.core.config import load_config
from mothtrap.core.errors import ConfigError
from mothtrap.core.working_folder import shown, working_folder


def name_here(run: Path) -> str:
    """Return the shortest name that finds a run from the working directory.

    Returns:
        Its name if it is in the folder in which runs are looked up, otherwise its path, relative if
        it is below the working directory.
    """
    try:
        config, _ = load_config(start=working_folder(), environ=os.environ)
        if run.parent.resolve() == Path(config.runs_dir).resolve():
            return run.name
    except (ConfigError, OSError):  # if nothing can be found by name, a path is correct, too
        pass
    path = shown(str(run))
    # Keep `..`, because the folder before it may be a link.
    return str(working_folder() / run) if os.path.isabs(path) else path
