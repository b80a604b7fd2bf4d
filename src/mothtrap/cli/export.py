"""Export a run to the format of another tool."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option


@click.command(name="export")
@click.argument("run", required=False)
@click.option(
    "--to",
    required=True,
    metavar="FORMAT",
    help="tensorboard, parquet, safetensors, chrome-trace, or a format from a plugin.",
)
@click.option("-o", "--output", required=True, metavar="PATH", help="File or folder to write.")
@click.option(
    "--tensors",
    default="*",
    metavar="GLOB",
    help="Tensors to export, e.g. 'gradient:*' or 'blocks.0.*'.",
)
@click.option(
    "--steps",
    default=":",
    metavar="A:B",
    help="Steps from A up to, but not including, B; A or B can be omitted.",
)
@click.option(
    "--follow", is_flag=True, help="Keep exporting until the run ends; for tensorboard only."
)
@runs_dir_option
def command(
    run: str | None,
    to: str,
    output: str,
    tensors: str,
    steps: str,
    follow: bool,
    runs_dir: str | None,
) -> None:
    """Export a run to the format of another tool; without RUN, the latest.

    \b
    tensorboard   a folder for `tensorboard --logdir`
    parquet       a folder with one table each for stats, scalars, events, and findings
    safetensors   a folder with one file for each step that has captured tensor values
    chrome-trace  a JSON file with a timeline of the steps, for ui.perfetto.dev
    """
    from mothtrap.core.config import load_config
    from mothtrap.exports import Choice, export_run, follow_run
    from mothtrap.reader.run import open_run

    begin, end = _range(steps)
    overrides = {"runs_dir": runs_dir}
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=overrides)
    choice = Choice(tensors=tensors, begin=begin, end=end)
    write = follow_run if follow else export_run
    written = write(open_run(run, config.runs_dir), to, output, choice)
    for sentence in written.left_out:
        click.echo(f"warning: {sentence}", err=True)
    counts = ", ".join(f"{count:,} {what}" for what, count in written.counts.items())
    click.echo(f"{output}: {counts}")


def _range(text: str) -> tuple[int, int | None]:
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if match is None:
        raise Refusal(
            f"--steps {text!r} is not a range of steps; expected A:B, e.g. 100:200 or 100:"
        )
    begin, end = int(match[1] or 0), int(match[2]) if match[2] else None
    if end is not None and end <= begin:
        raise Refusal(
            f"--steps {text} is empty: B is not included, so it must be greater than A; for step "
            f"{begin} alone, write {begin}:{begin + 1}"
        )
    return begin, end
