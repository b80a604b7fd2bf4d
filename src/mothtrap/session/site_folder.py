"""Folder on the path of a script whose `sitecustomize` starts mothtrap."""

from __future__ import annotations

from pathlib import Path

SITE = Path(__file__).parent / "site"
