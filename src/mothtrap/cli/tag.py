"""Tag a run, or remove its tags."""

from __future__ import annotations

import click

from mothtrap.cli._labeling import label
from mothtrap.cli._options import runs_dir_option


@click.command(name="tag")
@click.argument("run")
@click.argument("tags", nargs=-1, required=True)
@click.option("--remove", is_flag=True, help="Remove the tags.")
@runs_dir_option
def command(run: str, tags: tuple[str, ...], remove: bool, runs_dir: str | None) -> None:
    """Tag a run, or remove its tags; `mothtrap ls --where TAG` lists the runs with a tag.

    \b
    mothtrap tag RUN baseline paper
    mothtrap tag RUN paper --remove
    """
    label((run,), "untag" if remove else "tag", tags, runs_dir)
