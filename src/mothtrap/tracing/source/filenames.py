"""File names that a dataset stores for its samples, found without loading a sample."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FAVORITES = ("samples", "imgs", "files", "paths", "filenames", "images", "image_paths")
"""Attributes that are inspected first; the first two are used by most libraries for image folders.
"""
MAX_LENGTH = 1024
"""Maximum number of characters of a name."""
COMPARED = 10_000
"""Maximum number of names whose order is checked; chosen by hand: 2 ms, once."""
PROBED = 4
"""Number of samples whose names must look like file names."""
_FILE = re.compile(r"[^\n\r\t]*[^\n\r\t. ]\.[A-Za-z][A-Za-z0-9]{0,9}(\.[A-Za-z0-9]{1,4})?")


@dataclass(frozen=True, slots=True)
class FileNames:
    """Location of a dataset's file names, one per sample.

    Attributes:
        attribute: attribute of the dataset.
        root: a folder, ending with a separator, with which names may begin; or "".
    """

    attribute: str
    root: str

    def of(self, data: object, index: int) -> str:
        """Return the name of a sample without the root; "" without a name."""
        try:
            name = _name(vars(data)[self.attribute][index])
        except (KeyError, IndexError, TypeError):  # the dataset has changed
            return ""
        return name.removeprefix(self.root)[:MAX_LENGTH]

    def are_sorted(self, data: object) -> bool:
        """Return whether the first names are in alphabetical order."""
        names = [_name(entry) for entry in vars(data)[self.attribute][:COMPARED]]
        return all(before <= after for before, after in itertools.pairwise(names))


def file_names(data: object, length: int | None) -> FileNames | None:
    """Find the file names in a dataset; None if it stores no file names.

    The names are in an attribute with a list, tuple or array of paths, or of tuples that begin with
    a path, with the length of the dataset. No code of the dataset runs.

    Args:
        data: any dataset.
        length: number of samples.
    """
    try:
        held = vars(data)
    except TypeError:
        return None
    ordered = [*(name for name in FAVORITES if name in held), *held]
    for name in dict.fromkeys(ordered):
        entries = held[name]
        if not length or not _is_sequence(entries):
            continue
        if len(entries) == length and _are_files(entries):
            return FileNames(name, _root(held))
    return None


def _is_sequence(entries: object) -> bool:
    if isinstance(entries, np.ndarray):
        return entries.ndim == 1 and entries.dtype.kind in "UO"
    return type(entries) in (list, tuple)


def _are_files(entries: Sequence[Any]) -> bool:
    places = np.linspace(0, len(entries) - 1, min(PROBED, len(entries))).astype(int)
    names = [_name(entries[place]) for place in places.tolist()]
    return all(len(name) <= MAX_LENGTH and _FILE.fullmatch(name) for name in names)


def _name(entry: Any) -> str:
    if type(entry) in (tuple, list) and entry:
        entry = entry[0]
    if isinstance(entry, os.PathLike):
        entry = os.fspath(entry)
    return str(entry) if isinstance(entry, str) else ""


def _root(held: dict[str, Any]) -> str:
    root = held.get("root", "")
    root = os.fspath(root) if isinstance(root, os.PathLike) else root
    return os.path.join(root, "") if isinstance(root, str) and root else ""
