"""Options that many commands have."""

from __future__ import annotations

import click

runs_dir_option = click.option(
    "--runs-dir", metavar="DIR", help="Where runs are kept [default: ./runs]."
)
format_option = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)
