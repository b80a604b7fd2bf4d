"""Change what a running job captures, starting with its next step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option

if TYPE_CHECKING:
    from mothtrap.core.control_requests import CaptureRequest


@click.command(name="capture")
@click.argument("run", required=False)
@click.option(
    "--add", multiple=True, metavar="TENSORS", help="Tensors to capture, e.g. gradients:*."
)
@click.option("--remove", multiple=True, metavar="NAME", help="A collection to stop capturing.")
@click.option("--list", "lists", is_flag=True, help="List the active collections.")
@click.option("--name", metavar="NAME", help="Name of the new collection [default: its TENSORS].")
@click.option("--every", type=int, metavar="N", help="Capture every N steps [default: every step].")
@click.option(
    "--for",
    "for_steps",
    type=int,
    metavar="N",
    help="Stop after N steps [default: capture to the end].",
)
@click.option("--raw", is_flag=True, help="Store the values themselves, too.")
@click.option(
    "--statistic", multiple=True, metavar="ID", help="A statistic to store [default: all]."
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(["train", "eval", "predict"]),
    help="Mode in which to capture [default: train].",
)
@click.option(
    "--timeout",
    type=float,
    metavar="S",
    help="Seconds to wait for the answer [default: 30; with an object store 120].",
)
@runs_dir_option
def command(
    run: str | None, runs_dir: str | None, lists: bool, timeout: float | None, **asked: Any
) -> None:
    """Change what a running job captures, starting with its next step; without RUN, the latest.

    \b
    mothtrap capture RUN --add 'gradients:blocks.0.*' --every 1 --for 20 --raw
    mothtrap capture RUN --remove 'gradients:blocks.0.*'
    mothtrap capture RUN --list
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import given, load_config
    from mothtrap.session.control_client import (
        ask,
        check_running,
        common_step,
        in_force,
        unmatched,
        when,
    )
    from mothtrap.store.find_runs import find_run

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    path = find_run(run, config.runs_dir)
    if asked["add"] or asked["remove"]:
        if lists:
            raise Refusal("--list cannot be combined with --add or --remove; omit one of them")
        job = check_running(path)
        trains = asked["add"] and "train" in (asked["modes"] or ("train",))
        request = _request(path, asked, common_step(job) if trains else 0)
        answers = ask(path, request, timeout)
        collections = in_force(path)
        click.echo(f"{path.name}: {when(request, answers, collections)}")
        for sentence in unmatched(path, request):
            click.echo(f"warning: {sentence}", err=True)
    elif lists:
        collections = in_force(path)
    else:
        raise Refusal("nothing to do; pass --add TENSORS, --remove NAME, or --list")
    if not collections and not asked["add"]:
        click.echo("no collection is active; only data that the rules need is captured", err=True)
    for name, collection in collections.items():
        click.echo(f"{name}: {jsonable.text(given(collection))}")


def _request(path: Path, asked: dict[str, Any], from_step: int) -> CaptureRequest:
    from mothtrap.core.collections import Collection, complaint
    from mothtrap.core.control_requests import CaptureRequest
    from mothtrap.core.values import to_struct
    from mothtrap.store.control_inbox import new_id
    from mothtrap.store.layout import attempts

    add = {}
    if asked["add"]:
        name = asked["name"] or " ".join(asked["add"])
        values = {
            "tensors": asked["add"],
            "every": asked["every"],
            "raw": asked["raw"],
            "statistics": asked["statistic"] or (() if asked["raw"] else None),
            "modes": asked["modes"] or ("train",),
        }
        add[name] = to_struct(values, Collection, "--add")
        found = complaint(name, add[name])
        if found:
            raise Refusal(found)
    return CaptureRequest(
        id=new_id(),
        attempt=attempts(path)[-1],
        add=add,
        remove=tuple(asked["remove"]),
        for_steps=asked["for_steps"],
        from_step=from_step,
    )
