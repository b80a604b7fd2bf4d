"""Show the current settings and where each comes from, or their JSON schema."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mothtrap.cli._options import format_option


@click.command(name="config")
@click.option("--schema", "as_schema", is_flag=True, help="Print the JSON schema of the settings.")
@format_option
def command(as_schema: bool, form: str) -> None:
    """Show the current settings and where each comes from, or their JSON schema.

    Settings that `mothtrap run` would reject are an error here, too. With the schema, an editor
    checks and completes mothtrap.toml: mothtrap config --schema > mothtrap.schema.json
    """
    from mothtrap.core import jsonable
    from mothtrap.core.config import given, load_config, located, origins, plain, schema
    from mothtrap.core.errors import ConfigError
    from mothtrap.monitor.catalogue import load_rules

    if as_schema:
        click.echo(jsonable.encode(schema()))
        return
    config, warnings = load_config(start=Path.cwd(), environ=os.environ)
    sources = origins(start=Path.cwd(), environ=os.environ)
    try:
        load_rules(config)  # raises if a rule or threshold does not exist
    except ConfigError as err:
        raise located(err, start=Path.cwd(), environ=os.environ) from err
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    values = plain(config)
    del values["collections"]
    values |= {f"collections.{name}": given(value) for name, value in config.collections.items()}
    rows = {
        key: {"value": value, "source": sources.get(key, "default")}
        for key, value in values.items()
    }
    if form == "json":
        click.echo(jsonable.encode(rows))
        return
    width = max(map(len, rows))
    for key, row in rows.items():
        click.echo(f"{key:<{width}} = {jsonable.encode(row['value']).decode()}  # {row['source']}")
