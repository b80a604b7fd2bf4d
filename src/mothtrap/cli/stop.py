"""Stop a running job at a step that all its workers agree on."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mothtrap.cli._options import runs_dir_option


@click.command(name="stop")
@click.argument("run", required=False)
@click.option("--reason", default="requested by mothtrap stop", help="Reason; stored in the run.")
@click.option(
    "--timeout",
    type=float,
    metavar="S",
    help="Seconds to wait for the answer [default: 30; with an object store 120].",
)
@runs_dir_option
def command(run: str | None, runs_dir: str | None, reason: str, timeout: float | None) -> None:
    """Stop a running job at a step that all its workers agree on; without RUN, the latest.

    First, the functions that the script passed to mothtrap.on_stop are called. The job ends with
    exit code 3, or with the setting `stop_exit_code`.
    """
    from mothtrap.core.config import load_config
    from mothtrap.core.control_requests import StopRequest
    from mothtrap.session.control_client import ask_to_stop
    from mothtrap.store.control_inbox import new_id
    from mothtrap.store.find_runs import find_run
    from mothtrap.store.layout import attempts

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    path = find_run(run, config.runs_dir)
    request = StopRequest(id=new_id(), attempt=(attempts(path) or [1])[-1], reason=reason)
    answers = [answer for answer in ask_to_stop(path, request, timeout) if not answer.error]
    steps = sorted({answer.step for answer in answers})
    click.echo(f"{path.name}: stopped before step {', '.join(map(str, steps))}")
