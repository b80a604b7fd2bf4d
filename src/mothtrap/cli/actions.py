"""Show what the configured actions would do for a stored run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option

if TYPE_CHECKING:
    from mothtrap.core.collections import Collection
    from mothtrap.core.config import Config
    from mothtrap.core.events import Event

TEST = "test"
SEND_S = 30.0
"""Time for which this command tries to send messages; chosen by hand."""


@click.command(name="actions")
@click.argument("run", required=False)
@click.argument("name", required=False)
@click.option("--send", is_flag=True, help="Send the messages of RUN that were not delivered.")
@runs_dir_option
@click.pass_context
def command(
    ctx: click.Context, run: str | None, name: str | None, send: bool, runs_dir: str | None
) -> None:
    """Show what the configured actions would do for a stored run; without RUN, the latest.

    \b
    mothtrap actions RUN           list the events of a run, and the actions of each event
    mothtrap actions test NAME     send a test message with the actions of the table NAME
    mothtrap actions RUN --send    send the messages that the job could not deliver
    """
    from mothtrap.core.config import load_config, located
    from mothtrap.core.errors import ConfigError
    from mothtrap.monitor.reactions import load_reactions

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    try:
        found, _ = load_reactions(config)
    except ConfigError as err:
        raise located(err, start=Path.cwd(), environ=os.environ) from err
    if not found:
        raise Refusal("no [[actions]] are configured; add a table to mothtrap.toml")
    if run == TEST:
        if not _test(config, name):
            ctx.exit(1)
    elif name is not None:
        raise Refusal(
            f"unexpected argument {name!r}; to send a test message: mothtrap actions test {name}"
        )
    elif send:
        if _send(config, run):
            ctx.exit(1)
    else:
        _show(config, run)


def _show(config: Config, run: str | None) -> None:
    from mothtrap.monitor.alerts import glance
    from mothtrap.monitor.catalogue import explains, load_rules
    from mothtrap.monitor.reactions import planned
    from mothtrap.reader.run import open_run
    from mothtrap.report.style import Style

    style, opened = Style.of(sys.stdout), open_run(run, config.runs_dir)
    now = glance(opened, time.time())
    for event, words in planned(config, explains(load_rules(config)), now):
        if words or event.finding is not None:
            what = f"{event.finding.code} " if event.finding is not None else ""
            click.echo(f"{event.kind}: {what}{style.safe(event.text)}")
            for line in words or ["nothing"]:
                click.echo(f"  -> {line}")


def _test(config: Config, name: str | None) -> bool:
    """Send a test event by the messages of a table; return whether all arrived."""
    from mothtrap.core.errors import ActionError, nearest
    from mothtrap.monitor.reactions import load_reactions

    found, targets = load_reactions(config)
    names = [reaction.name for reaction in found]
    if name is None or name not in names:
        hint = nearest(name or "", names)
        raise Refusal(f"no table {name!r}{hint}; tables: {', '.join(names)}")
    event, well = _test_event(), True
    for (reaction, _), made in targets.items():
        for action in made if reaction == name else ():
            if not action.is_message:
                click.echo(f"{action.label}: not a message, so there is nothing to send")
                continue
            try:
                click.echo(f"{action.label}: {action.run(event, _NoJob(), event.key)}")
            except ActionError as err:
                well = False
                click.echo(f"{action.label}: failed: {err}", err=True)
    return well


def _test_event() -> Event:
    import secrets

    from mothtrap.core.events import Event

    return Event(
        key=secrets.token_hex(16),
        kind="test",
        run="test",
        path=str(Path.cwd()),
        attempt=1,
        time_s=time.time(),
        text="a test message from mothtrap; nothing is wrong",
    )


class _NoJob:
    """Stand-in for a job that does not exist."""

    path = Path()
    is_running = False

    def stop(self, reason: str, prunes: Literal["", "optuna", "ray"] = "") -> bool:
        """Do nothing."""
        del reason, prunes
        return False

    def snapshot(self) -> None:
        """Do nothing."""

    def capture(self, add: Mapping[str, Collection], for_steps: int | None) -> None:
        """Do nothing."""

    def call(self, function: str, event: Event) -> None:
        """Do nothing."""


def _send(config: Config, run: str | None) -> int:
    """Send the unconfirmed messages of a run; return the number that is still unsent."""
    from mothtrap.monitor.deliveries import Deliveries
    from mothtrap.monitor.reactions import load_reactions
    from mothtrap.store.find_runs import find_run
    from mothtrap.store.journal import Journal

    path = find_run(run, config.runs_dir)
    journal = Journal(path)
    if not journal.path.exists():
        click.echo(f"{path.name}: no messages are recorded")
        return 0
    if not journal.hold():
        raise Refusal(f"the job of {path.name} is still running and sends its messages itself")
    job = _NoJob()
    job.path = path
    deliveries = Deliveries(journal, job, lambda line: click.echo(line, err=True))
    _, targets = load_reactions(config)
    count = deliveries.resend([(*key, each) for key, made in targets.items() for each in made])
    left = deliveries.close(SEND_S)
    journal.close()
    click.echo(f"{path.name}: {count - left} sent, {left} not delivered")
    return left
