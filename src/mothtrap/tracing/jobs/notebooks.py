"""Cells and name of a notebook, as IPython and its front ends report them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import PurePath

NAMES = ("JPY_SESSION_NAME",)
"""Environment variables in which servers store the path of the notebook."""
VARIABLES = ("__vsc_ipynb_file__", "__session__")
"""Notebook variables in which front ends and kernels store its path."""


def cell_of(filename: str) -> int | None:
    """Return the number of a notebook cell, as in `In [2]`, with a file name.

    Args:
        filename: filename of a code object.
    """
    compiler = getattr(_shell(), "compile", None)
    numbers = getattr(compiler, "_filename_map", None)
    number = numbers.get(filename) if isinstance(numbers, Mapping) else None
    return number if isinstance(number, int) else None


def notebook_name() -> str:
    """Return the running notebook's file name, valid for a folder; '' outside a notebook.

    If the front end does not provide the notebook's name, the name is `notebook`.
    """
    shell = _shell()
    if shell is None:
        return ""
    variables = getattr(shell, "user_ns", {})
    told = [*(os.environ.get(name) for name in NAMES), *(variables.get(name) for name in VARIABLES)]
    path = next((path for path in told if isinstance(path, str) and path), "")
    name = re.sub(r"[^\w.-]+", "-", PurePath(path).name).strip("-.")
    return name or ("notebook" if "ipykernel" in sys.modules else "session")


def cells_run() -> str:
    """Return the cells run so far, with their numbers; '' outside a session."""
    variables = getattr(_shell(), "user_ns", {})
    cells = variables.get("In", ()) if isinstance(variables, Mapping) else ()
    typed = [(number, cell) for number, cell in enumerate(cells) if isinstance(cell, str) and cell]
    return "\n\n".join(f"# In [{number}]\n{cell}" for number, cell in typed)


def _shell() -> object | None:
    """Return the running IPython shell."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
