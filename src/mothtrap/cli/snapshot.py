"""Ask a running job for a snapshot of its next step, for `mothtrap replay`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import format_option, runs_dir_option

if TYPE_CHECKING:
    from mothtrap.snapshot.format import Stored


@click.command(name="snapshot")
@click.argument("run", required=False)
@click.option("--list", "lists", is_flag=True, help="List the snapshots of the run.")
@format_option
@click.option(
    "--timeout",
    type=float,
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait for the answer.",
)
@runs_dir_option
def command(run: str | None, lists: bool, form: str, timeout: float, runs_dir: str | None) -> None:
    """Ask a running job for a snapshot of its next step, for `mothtrap replay`.

    Without RUN, the latest run.

    \b
    mothtrap snapshot RUN           ask for a snapshot, and wait until it is written
    mothtrap snapshot RUN --list    list the snapshots, also of a run that has ended
    """
    from mothtrap.core.config import load_config
    from mothtrap.snapshot.format import stored
    from mothtrap.store.layout import find_run
    from mothtrap.store.objects import is_url

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    if is_url(run or config.runs_dir):
        raise Refusal(
            "snapshots are stored on the machine of the job, not at the URL; pass the folder of "
            "the run there"
        )
    path = find_run(run, config.runs_dir)
    taken = set() if lists else _take(path, timeout)
    found = [each for each in stored(path) if lists or str(each.folder.relative_to(path)) in taken]
    _print(path, found, form)


def _take(path: Path, timeout_s: float) -> set[str]:
    """Have a snapshot taken; return the folders, below the run's."""
    from mothtrap.core.control_requests import SnapshotRequest
    from mothtrap.session.control_client import ask_for_snapshot
    from mothtrap.store.control_inbox import new_id
    from mothtrap.store.layout import attempts

    request = SnapshotRequest(id=new_id(), attempt=attempts(path)[-1])
    answers = ask_for_snapshot(path, request, timeout_s)
    for answer in answers:
        if answer.error:
            click.echo(f"warning: a rank refused: {answer.error}", err=True)
    return {answer.folder for answer in answers if not answer.error}


def _print(path: Path, found: list[Stored], form: str) -> None:
    from mothtrap.core import jsonable

    if form == "json":
        click.echo(jsonable.shown([_facts(each) for each in found]).decode())
        return
    if not found:
        click.echo(
            f"{path.name} has no snapshots. One is taken when a loss or gradient is not finite, "
            "when a finding is an error, and when you request one from a running job",
            err=True,
        )
    from mothtrap.core.runs import has_script
    from mothtrap.core.snapshots import BUILD
    from mothtrap.report.style import Style
    from mothtrap.store.naming import name_here

    style = Style.of(sys.stdout)
    for each in found:
        about = each.snapshot
        if about is None:
            click.echo(f"step {each.step}, rank {each.worker}: {style.safe(each.damage)}")
            continue
        build = "" if has_script(about.command) else BUILD
        exact = "" if about.state_step <= each.step else f", state of step {about.state_step}"
        click.echo(
            f"step {each.step}, rank {each.worker}: {style.safe(about.reason)}{exact}, "
            f"{each.size_bytes / 2**20:.1f} MB: "
            f"mothtrap replay {style.safe(name_here(path))} --step {each.step}{build}"
        )
        if about.note:
            click.echo(f"  {style.safe(about.note)}")


def _facts(each: Stored) -> dict[str, object]:
    about = each.snapshot
    return {
        "step": each.step,
        "worker": each.worker,
        "folder": str(each.folder),
        "size_bytes": each.size_bytes,
        "state_step": about.state_step if about is not None else None,
        "reason": about.reason if about is not None else None,
        "note": about.note if about is not None else "",
        "created_s": about.created_s if about is not None else None,
        "damage": each.damage,
    }
