"""Follow runs from outside their jobs: evaluate the rules and run the actions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mothtrap.cli._findings import rule_files_option
from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option

if TYPE_CHECKING:
    from mothtrap.session.monitoring.runs_follower import Task


@click.command(name="monitor")
@click.argument("places", nargs=-1, metavar="[RUNS]...")
@click.option("--new", "awaits_new", is_flag=True, help="Follow runs that appear later, too.")
@rule_files_option
@click.option("--select", metavar="CODES", help="Rules to evaluate, by code or family: NUM,GRD101.")
@click.option("--ignore", metavar="CODES", help="Rules to skip, by code or family.")
@click.option(
    "--executor",
    metavar="NAME",
    help="Where to evaluate: processes, dask, dask://HOST:PORT, ray, ray://HOST:PORT "
    "[default: this process].",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="Number of monitors on the executor; they share the runs.",
)
@runs_dir_option
def command(
    places: tuple[str, ...],
    awaits_new: bool,
    rule_files: tuple[str, ...],
    select: str | None,
    ignore: str | None,
    executor: str | None,
    workers: int,
    runs_dir: str | None,
) -> None:
    """Follow runs from outside their jobs: evaluate the rules and run the actions.

    RUNS are runs, folders of runs, or their URLs [default: all runs in ./runs]. A run whose job
    evaluates the rules itself is followed only with --select, --ignore, or --rules. Several
    monitors can follow the same runs: one monitor evaluates each run at a time, and another takes
    over if it is killed. Rules, thresholds, and actions come from the configuration here, not from
    the job's.

    \b
    mothtrap run --no-rules train.py                  # on the machine that trains
    mothtrap monitor runs/ --new                      # on another one
    mothtrap monitor s3://bucket/team --new --select NUM,GRD
    """
    import msgspec

    from mothtrap.core.collections import function_name
    from mothtrap.core.config import load_config
    from mothtrap.monitor.catalogue import load_rules
    from mothtrap.monitor.reactions import load_reactions
    from mothtrap.session.monitoring.runs_follower import RunsFollower, Task

    overrides = {
        "runs_dir": runs_dir,
        "rule_files": rule_files or None,
        "select": tuple(filter(None, select.split(","))) if select is not None else None,
        "ignore": tuple(filter(None, ignore.split(","))) if ignore is not None else None,
    }
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    load_rules(config)
    load_reactions(config)
    wanted = _places(places or (config.runs_dir,), config.runs_dir, awaits_new=awaits_new)
    is_chosen = bool(select or ignore or rule_files)
    if executor is not None:
        task = Task(
            places=wanted,
            config=msgspec.json.encode(config, enc_hook=function_name).decode(),
            is_chosen=is_chosen,
            awaits_new=awaits_new,
            of=workers,
            cwd=os.getcwd(),
        )
        _on_executor(executor, workers, task)
        return
    watch = RunsFollower(wanted, config, _say, is_chosen=is_chosen, awaits_new=awaits_new)
    try:
        followed = watch.run()
    except KeyboardInterrupt:
        _say("mothtrap: monitor: stopped; the next monitor continues from here")
        return
    if watch.left_out and not followed:
        raise Refusal(
            f"{len(watch.left_out)} runs were skipped, because their jobs evaluate the rules "
            "themselves; start a job with `mothtrap run --no-rules`, or choose rules with "
            "--select or --rules"
        )


def _on_executor(name: str, workers: int, task: Task) -> None:
    """Run monitors on an executor; they share the runs by their leases."""
    from mothtrap.core import jsonable
    from mothtrap.monitor.executors import open_executor
    from mothtrap.session.monitoring.runs_follower import work

    with open_executor(name, workers) as executor:
        futures = [executor.submit(work, jsonable.encode(task)) for _ in range(workers)]
        followed = sum(future.result() for future in futures)
    _say(f"mothtrap: monitor: {followed} runs were followed to their end")


def _places(named: tuple[str, ...], runs_dir: str, *, awaits_new: bool) -> tuple[str, ...]:
    """Return the paths and URLs of runs, and of folders of runs.

    Raises:
        RunNotFoundError: a name matches no run, and new runs are not awaited.
    """
    from mothtrap.store import layout
    from mothtrap.store.objects import is_url, join

    found = []
    for name in named:
        if is_url(name):
            found.append(name)
        elif awaits_new or Path(name).is_dir():
            found.append(str(Path(name).absolute()))
        elif is_url(runs_dir):
            found.append(join(runs_dir, name))
        else:
            found.append(str(layout.find_run(name, runs_dir).absolute()))
    return tuple(found)


def _say(line: str) -> None:
    click.echo(line, err=True)
