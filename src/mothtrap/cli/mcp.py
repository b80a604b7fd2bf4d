"""Serve the runs of a folder to a coding agent over the Model Context Protocol."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mothtrap.cli._group import Refusal


@click.command(name="mcp")
@click.argument("runs", required=False)
@click.option(
    "--allow-replay", "replays", is_flag=True, help="Let the agent start scripts to replay steps."
)
@click.option(
    "--allow-control",
    "control",
    is_flag=True,
    help="Let the agent change what running jobs capture, and stop them.",
)
def command(runs: str | None, replays: bool, control: bool) -> None:
    """Serve the runs of a folder to a coding agent over the Model Context Protocol.

    RUNS is a folder of runs [default: ./runs]. The agent starts this command and talks to it over
    stdin and stdout. By default, it can only read.

    \b
    claude mcp add mothtrap -- mothtrap mcp runs
    """
    from mothtrap.core.config import load_config
    from mothtrap.core.errors import MissingExtraError
    from mothtrap.store.layout import attempts
    from mothtrap.store.objects import is_url

    try:
        from mothtrap.agents.server import build
    except ImportError as err:
        if (err.name or "").partition(".")[0] != "mcp":
            raise
        raise MissingExtraError("mothtrap mcp", "mcp", "mcp") from err
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs})
    if is_url(config.runs_dir):
        raise Refusal("mothtrap mcp needs a folder on this machine, not a URL")
    folder = Path(config.runs_dir)
    if attempts(folder):
        raise Refusal(f"{folder} is one run; pass the folder that contains it: {folder.parent}")
    build(folder, replays=replays, control=control).run("stdio")
