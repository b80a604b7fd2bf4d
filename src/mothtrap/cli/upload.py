"""Upload runs stored on this machine to their object store."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mothtrap.cli._group import USAGE_OR_OWN_ERROR


@click.command(name="upload")
@click.argument("run", required=False)
@click.option("--to", metavar="URL", help="Object store to upload to, e.g. s3://bucket/runs.")
@click.option(
    "--name", metavar="NAME", help="Name of the run in the store [default: its own name]."
)
@click.pass_context
def command(ctx: click.Context, run: str | None, to: str | None, name: str | None) -> None:
    """Upload runs stored on this machine to their object store.

    Without RUN, upload every run whose store could not be reached before its job ended. RUN is a
    path or the name of one of these runs; with --to, it can be any run on this machine.
    """
    from mothtrap.core.config import load_config
    from mothtrap.core.errors import ConfigError, MothtrapError
    from mothtrap.core.run_names import check_name
    from mothtrap.session.sending import send, spooled
    from mothtrap.store.layout import attempts, find_run
    from mothtrap.store.objects import is_url

    if name is not None:
        check_name(name, "--name")
    waiting = spooled()
    if run is None:
        if to is not None or name is not None:
            raise ConfigError("--to and --name apply to one run; also name the run")
        if not waiting:
            click.echo("every run is already in its store; nothing to upload", err=True)
        chosen = waiting
    elif attempts(Path(run)) or not (named := [path for path in waiting if path.name == run]):
        config, _ = load_config(start=Path.cwd(), environ=os.environ)
        chosen = [find_run(run, "runs" if is_url(config.runs_dir) else config.runs_dir)]
    else:
        chosen = named
    failed = False
    for path in chosen:
        try:
            click.echo(f"{path.name} was uploaded to {send(path, to, name)}")
        except (MothtrapError, OSError) as err:
            if len(chosen) == 1:
                raise
            click.echo(f"error: {err}", err=True)
            failed = True
    ctx.exit(USAGE_OR_OWN_ERROR if failed else 0)
