"""Labels that people put on runs from the command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mothtrap.core.labels import LabelKind

_DONE = {"tag": "tagged", "untag": "no longer tagged", "note": "noted", "group": "in group"}
_DONE |= {"archive": "archived", "restore": "restored"}


def label(runs: Sequence[str], kind: LabelKind, texts: Sequence[str], runs_dir: str | None) -> None:
    """Label runs, and print the changes.

    Args:
        runs: paths or names.
        kind: kind of the labels.
        texts: one label each.
        runs_dir: folder of the runs; None: as configured.
    """
    from mothtrap.core.config import load_config
    from mothtrap.report.style import Style
    from mothtrap.store.find_runs import find_run
    from mothtrap.store.labels import put_label

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    safe = Style().safe
    for path in [find_run(run, config.runs_dir) for run in runs]:
        for text in texts:
            put_label(path, kind, text)
            shown = "in no group" if kind == "group" and not text.strip() else _DONE[kind]
            click.echo(f"{safe(path.name)}: {shown} {safe(text.strip())}".rstrip())
