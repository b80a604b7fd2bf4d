"""Mark the findings that the user names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mothtrap.cli._group import Refusal

if TYPE_CHECKING:
    from mothtrap.core.findings import Finding


def mark(
    run: str | None,
    which: tuple[str, ...],
    kind: Literal["acknowledged", "muted", "unmuted"],
    runs_dir: str | None,
    note: str = "",
    for_s: float | None = None,
) -> None:
    """Mark findings of a run, and print them.

    Args:
        run: path or name; None: the latest run.
        which: codes, names or fingerprints.
        kind: kind of the mark.
        runs_dir: folder of the runs; None: as configured.
        note: a remark.
        for_s: duration in seconds; None: forever.
    """
    from mothtrap.core.config import load_config
    from mothtrap.core.marks import Mark
    from mothtrap.reader.run import open_run
    from mothtrap.store.marks import put_mark
    from mothtrap.store.remarks import user_name

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    opened = open_run(run, config.runs_dir)
    for finding in _meant(opened.findings, which):
        now_s = time.time()
        put_mark(
            opened.path,
            Mark(
                fingerprint=finding.fingerprint,
                kind=kind,
                at_s=now_s,
                by=user_name(),
                note=note,
                until_s=now_s + for_s if for_s is not None else None,
            ),
        )
        click.echo(f"{opened.id}: {finding.code} {finding.name} {kind}")


def _meant(findings: tuple[Finding, ...], which: tuple[str, ...]) -> list[Finding]:
    from mothtrap.core.errors import nearest

    found = []
    for word in which:
        own = [f for f in findings if word in (f.fingerprint, f.name) or word.upper() == f.code]
        if not own:
            known = sorted({name for f in findings for name in (f.code, f.name)})
            there = ", ".join(known) or "none"
            raise Refusal(f"no finding {word!r}{nearest(word, known)}; the run has: {there}")
        found += [finding for finding in own if finding not in found]
    return found
