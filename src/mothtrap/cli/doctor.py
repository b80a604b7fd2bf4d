"""Check whether mothtrap works here, or whether a run is reproducible."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from mothtrap.cli._options import format_option, runs_dir_option, warn_of_damage

if TYPE_CHECKING:
    from mothtrap.core.config import Config
    from mothtrap.report.blocker import Blocker

# Chosen by hand: an hour of training with everything captured stays well below it.
LOW_DISK_BYTES = 1e9
PACKAGES = ("torch", "numpy", "pyarrow", "msgspec")


class Check(NamedTuple):
    """One checked item; `state` is `ok`, `warning` or `problem`."""

    state: str
    what: str
    finding: str


@click.command(name="doctor")
@click.argument("run", required=False)
@format_option
@runs_dir_option
@click.pass_context
def command(ctx: click.Context, run: str | None, form: str, runs_dir: str | None) -> None:
    """Check whether mothtrap works here, or whether a run is reproducible.

    Exits with 1 if mothtrap cannot work here. With RUN (the path or name of a run), lists what
    keeps this run from being reproducible, and how to fix it. Exits with 1 if another run of the
    script will give different numbers.
    """
    if run is not None:
        found, name = _blockers(run, runs_dir)
        _show_blockers(found, name, form)
        ctx.exit(1 if any(each.state == "will" for each in found) else 0)
    checks = list(_checks(runs_dir))
    if form == "json":
        click.echo(json.dumps([check._asdict() for check in checks]))
    else:
        for check in checks:
            click.echo(f"{check.state:<8} {check.what}: {check.finding}")
    ctx.exit(1 if any(check.state == "problem" for check in checks) else 0)


def _blockers(argument: str, runs_dir: str | None) -> tuple[list[Blocker], str]:
    from mothtrap.core.config import load_config
    from mothtrap.core.errors import DamagedDataError
    from mothtrap.core.facts.data import LoaderBegan
    from mothtrap.reader.run import open_run
    from mothtrap.report import reproducibility_blockers as report
    from mothtrap.session import surroundings
    from mothtrap.store.source_digests import digests_of

    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    run = open_run(argument, config.runs_dir)
    warn_of_damage(run)
    loaders, data = run.observations(LoaderBegan), run.samples.data()
    found: dict[tuple[str, str], Blocker] = {}
    for worker in run.workers or (0,):
        try:
            ledger, source = run.ledger(worker), run.source
        except DamagedDataError as err:
            click.echo(f"warning: {err}", err=True)
            ledger = source = None
        told = [*report.blockers(ledger, source, loaders, data)]
        if ledger is not None:
            here = surroundings.installed_versions(ledger.facts.get("versions", {}))
            told += report.differences_here(ledger, here, surroundings.hardware())
            then = ledger.facts.get("sources", {})
            told += report.changed_sources(then, digests_of(then, Path(ledger.cwd)))
        # Most workers of a job are alike: each reason is said once.
        found |= {(each.state, each.what): each for each in told}
    return list(found.values()), run.id


def _show_blockers(found: list[Blocker], name: str, form: str) -> None:
    from mothtrap.core import jsonable
    from mothtrap.report import reproducibility_blockers as report
    from mothtrap.report.style import Style

    if form == "json":
        said = {"run": name, "verdict": report.verdict(found), "hindrances": found}
        click.echo(jsonable.shown(said))
    else:
        click.echo(report.text(found, name, Style.of(sys.stdout)), color=True)


def _checks(runs_dir: str | None) -> Iterator[Check]:
    from mothtrap.core.config import find_file, is_disabled, load_config
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
    yield Check(
        "ok",
        "configuration",
        f"{source}" if source else "no configuration file; the defaults apply",
    )
    yield from (Check("warning", "environment", warning) for warning in warnings)
    if is_disabled(os.environ):
        given = os.environ["MOTHTRAP_DISABLE"]
        message = f"MOTHTRAP_DISABLE={given} turns everything off; unset it"
        yield Check("problem", "environment", message)
    yield from _rules(config)
    yield from _adapters()
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
                f"not installed for this Python; run: {sys.executable} -m pip install {package}",
            )
    built = find_spec("mothtrap.statistics._arrays") is not None
    slow = "not built, so capturing is slower; install a C compiler, then reinstall mothtrap"
    yield Check("ok" if built else "warning", "compiled part", "built" if built else slow)


def _rules(config: Config) -> Iterator[Check]:
    from mothtrap.core.errors import ConfigError
    from mothtrap.core.fact import unusable
    from mothtrap.monitor.catalogue import load_rules, warnings_of

    yield from (Check("warning", "facts", str(fault)) for fault in unusable())
    try:
        yield from (Check("warning", "rule", text) for text in warnings_of(config.rule_files))
        rules = load_rules(config)
    except ConfigError as err:
        yield Check("problem", "rules", str(err))
    else:
        state = "ok" if rules else "warning"
        yield Check(state, "rules", f"{len(rules)} active")


def _adapters() -> Iterator[Check]:
    """Check the adapters of other distributions, without importing their frameworks."""
    from mothtrap.core import registry
    from mothtrap.session.triggers import PACKAGE

    for part in registry.parts(PACKAGE):
        if part.entry_point is None:
            continue
        if find_spec(part.name) is not None:
            yield Check("ok", "adapter", f"{part.name} of {part.origin}")
        else:
            finding = (
                f"{part.name} of {part.origin} is not used, because no module {part.name!r} is "
                "installed; the name of the entry point must be the import name of the framework"
            )
            yield Check("warning", "adapter", finding)


def _place_of_runs(runs_dir: str) -> Iterator[Check]:
    from mothtrap.core.errors import MothtrapError
    from mothtrap.session.uploading import folder_for
    from mothtrap.store.objects import is_url, open_store

    try:
        folder = folder_for(runs_dir)
        if is_url(runs_dir):
            open_store(runs_dir).children("")
            yield Check("ok", "object store", f"{runs_dir} is readable")
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
            "problem",
            "runs folder",
            f"{folder} is not writable ({err}); choose another folder with --runs-dir",
        )
        return
    yield Check("ok", "runs folder", f"{folder.absolute()} is writable")
    free = shutil.disk_usage(existing).free
    low = free < LOW_DISK_BYTES
    text = f"{free / 1e9:,.1f} GB free" + ("; runs may not fit" if low else "")
    yield Check("warning" if low else "ok", "disk", text)


def _start_up_hook() -> Check:
    from mothtrap.session.launch import probe

    reason = probe()
    what = "start-up hook"
    if reason is None:
        return Check(
            "ok", what, "child processes of this Python are watched (not with -I, -E, or -S)"
        )
    return Check("problem", what, reason)
