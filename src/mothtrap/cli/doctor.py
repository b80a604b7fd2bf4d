"""Look whether this environment lets mothtrap work."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from mothtrap.core.config import Config

# Chosen by hand: an hour of training with everything captured stays well below it.
LOW_DISK_BYTES = 1e9
PACKAGES = ("torch", "numpy", "pyarrow", "msgspec")


class Check(NamedTuple):
    """One thing looked at; `state` is `ok`, `warning` or `problem`."""

    state: str
    what: str
    finding: str


@click.command(name="doctor")
@click.option("--runs-dir", metavar="DIR", help="Where runs are kept [default: ./runs].")
@click.pass_context
def command(ctx: click.Context, runs_dir: str | None) -> None:
    """Look whether this environment lets mothtrap work; exit with 1 when it does not."""
    problems = 0
    for check in _checks(runs_dir):
        problems += check.state == "problem"
        click.echo(f"{check.state:<8} {check.what}: {check.finding}")
    ctx.exit(1 if problems else 0)


def _checks(runs_dir: str | None) -> Iterator[Check]:
    from mothtrap.core.config import find_file, load_config
    from mothtrap.core.errors import ConfigError

    yield Check("ok", "python", f"{sys.version.split()[0]} at {sys.executable}")
    yield from _packages()
    source = find_file(Path.cwd())
    try:
        config, warnings = load_config(
            start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir}
        )
    except ConfigError as err:
        yield Check("problem", "configuration", str(err))
        return
    yield Check("ok", "configuration", f"{source}" if source else "no file; defaults")
    yield from (Check("warning", "environment", warning) for warning in warnings)
    if os.environ.get("MOTHTRAP_DISABLE") == "1":
        yield Check("problem", "environment", "MOTHTRAP_DISABLE=1 turns everything off; unset it")
    yield from _rules(config)
    yield from _place_of_runs(config.runs_dir)
    yield _start_up_hook()


def _packages() -> Iterator[Check]:
    for package in ("mothtrap", *PACKAGES):
        try:
            yield Check("ok", package, version(package))
        except PackageNotFoundError:
            yield Check(
                "problem",
                package,
                f"not installed for this Python; {sys.executable} -m pip install {package}",
            )


def _rules(config: Config) -> Iterator[Check]:
    from mothtrap.core.errors import ConfigError
    from mothtrap.monitor.catalogue import left_out, load_rules

    yield from (Check("warning", "rule", str(fault)) for fault in left_out())
    try:
        rules = load_rules(config)
    except ConfigError as err:
        yield Check("problem", "rules", str(err))
    else:
        state = "ok" if rules else "warning"
        yield Check(state, "rules", f"{len(rules)} in force")


def _place_of_runs(runs_dir: str) -> Iterator[Check]:
    from mothtrap.core.errors import MothtrapError
    from mothtrap.session.uploading import folder_for
    from mothtrap.store.objects import is_url, open_store

    try:
        folder = folder_for(runs_dir)
        if is_url(runs_dir):
            open_store(runs_dir).children("")
            yield Check("ok", "object store", f"{runs_dir} can be read")
    except MothtrapError as err:
        yield Check("problem", "object store", str(err))
        return
    yield from _runs_folder(folder)


def _runs_folder(folder: Path) -> Iterator[Check]:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        finding = f"{existing} is a file, not a folder; choose another folder with --runs-dir"
        yield Check("problem", "runs folder", finding)
        return
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as err:
        yield Check(
            "problem", "runs folder", f"{folder} cannot be written to ({err}); choose --runs-dir"
        )
        return
    yield Check("ok", "runs folder", f"{folder.absolute()} can be written to")
    free = shutil.disk_usage(existing).free
    low = free < LOW_DISK_BYTES
    text = f"{free / 1e9:,.1f} GB free" + ("; runs may not fit" if low else "")
    yield Check("warning" if low else "ok", "disk", text)


def _start_up_hook() -> Check:
    from mothtrap.session.launch import probe

    reason = probe()
    what = "start-up hook"
    if reason is None:
        return Check("ok", what, "children of this Python are reached (not under -I, -E or -S)")
    return Check("problem", what, reason)
