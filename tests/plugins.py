"""A third-party distribution, installed into its own folder without pip."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, parts: Mapping[str, Mapping[str, str]]
) -> Path:
    """Write the package `theirs` and the metadata of `their-plugins 1.2`; put both on sys.path.

    Args:
        folder: an empty folder.
        parts: for each group of entry points the source of its modules, by name.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] == "theirs"]:
        monkeypatch.delitem(sys.modules, name)  # from another test
    package = folder / "theirs"
    package.mkdir()
    (package / "__init__.py").write_text("")
    lines = []
    for group, modules in parts.items():
        lines.append(f"[{group}]")
        for name, source in modules.items():
            (package / f"{name}.py").write_text(source)
            lines.append(f"{name} = theirs.{name}")
    info = folder / "their_plugins-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-plugins\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(folder)
    importlib.invalidate_caches()
    return folder
