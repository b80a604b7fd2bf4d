"""Show which samples a step trained on, and which samples occur in bad steps."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from mothtrap.cli._group import Refusal
from mothtrap.cli._options import format_option, runs_dir_option, warn_of_damage
from mothtrap.core.errors import nearest

if TYPE_CHECKING:
    from mothtrap.reader.run import Run
    from mothtrap.reader.samples.suspects import Place


MOST_STEPS = 3
"""Steps shown if neither a step nor a limit is given."""


@click.command(name="samples")
@click.argument("run", required=False)
@click.option(
    "--step", "steps", type=click.IntRange(0), multiple=True, metavar="N", help="Show this step."
)
@click.option(
    "--where",
    "rules",
    multiple=True,
    metavar="RULE",
    help="Show the steps at which a rule found something. RULE is its name or code, e.g. "
    "loss_spike.",
)
@click.option(
    "--seen",
    metavar="SAMPLE",
    help="Show the steps that trained on a sample: a file name or its end, an index, or "
    "the digest of a row.",
)
@click.option(
    "--rank",
    "ranks",
    is_flag=True,
    help="Rank samples by how often they occur in bad steps. --where and --step select "
    "the bad steps. Without these options, a step is bad if its loss or gradient norm is not "
    "finite, or far above the steps around it.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="Show at most this many samples or steps (3 steps by default); JSON has all of them.",
)
@format_option
@runs_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    run: str | None,
    steps: tuple[int, ...],
    rules: tuple[str, ...],
    seen: str | None,
    ranks: bool,
    limit: int,
    form: str,
    runs_dir: str | None,
) -> None:
    """Show which samples a step trained on, and which samples occur in bad steps.

    RUN is a path or the name of a run [default: the latest run]. The run may still be running. The
    exit code is 1 if nothing was found.

    \b
    mothtrap samples RUN                       the samples of the first steps
    mothtrap samples RUN --step 4771           the samples of one step
    mothtrap samples RUN --where loss_spike    the samples of the steps of a finding
    mothtrap samples RUN --seen img_0042.png   the steps that trained on a sample
    mothtrap samples RUN --rank                samples that keep occurring in bad steps
    """
    from mothtrap.core.config import load_config
    from mothtrap.reader.run import open_run
    from mothtrap.reader.samples import suspects
    from mothtrap.report import samples as report
    from mothtrap.report.style import Style

    if seen is not None and (steps or rules or ranks):
        raise Refusal("--seen searches all steps; omit --step, --where, and --rank")
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides={"runs_dir": runs_dir})
    opened, style = open_run(run, config.runs_dir), Style.of(sys.stdout)
    warn_of_damage(opened)
    if seen is not None:
        found = report.sightings(opened.samples, seen)
        _show(form, found, report.sightings_text(found, seen, style, limit))
        ctx.exit(0 if found else 1)
    bad = _places(opened, steps, rules, by_loss=ranks)
    if ranks:
        ranking = suspects.rank(opened.samples.steps(), bad)
        _show(form, report.ranking_record(ranking), report.ranking_text(ranking, style, limit))
        ctx.exit(0 if ranking.ranked else 1)
    if steps or rules:
        told = opened.samples.among({step for _, step in bad})
        shown = [step for step in told if (step.worker, step.step) in bad]
    else:
        shown = list(opened.samples.steps())
    shown.sort(key=lambda step: (step.step, step.worker))  # the earliest fault comes first
    given = ctx.get_parameter_source("limit") is not ParameterSource.DEFAULT
    most = None if steps and not rules else limit if given else MOST_STEPS
    text = report.steps_text(shown, style, limit, most)
    _show(form, [report.step_record(s) for s in shown], text)
    _say_unknown(tuple({step for _, step in bad} - {step.step for step in shown}))
    ctx.exit(0 if shown else 1)


def _say_unknown(steps: tuple[int, ...]) -> None:
    from mothtrap.report.style import ranges

    if steps:
        word, whose = ("step", "its") if len(steps) == 1 else ("steps", "their")
        click.echo(f"{word} {ranges(steps)}: {whose} samples are unknown", err=True)


def _show(form: str, record: object, text: str) -> None:
    from mothtrap.core import jsonable

    click.echo(jsonable.shown(record) if form == "json" else text)


def _places(
    run: Run, steps: tuple[int, ...], rules: tuple[str, ...], *, by_loss: bool
) -> dict[Place, None]:
    """Find the selected steps: by number, by finding, or else all bad steps."""
    from mothtrap.core.steps import Mode
    from mothtrap.reader.samples import suspects

    losses = [
        (worker, series)
        for worker in run.workers
        for series in run.scalars("loss", Mode.TRAIN, worker=worker)
    ]
    places: dict[Place, None] = {}
    for rule in rules:
        found = [f for f in run.findings if rule in (f.name, f.code)]
        if not found:
            known = sorted({f.name for f in run.findings})
            raise Refusal(
                f"the run has no finding of the rule {rule!r}{nearest(rule, known)}; it has: "
                f"{', '.join(known) or 'none'}"
            )
        places |= suspects.steps_of(found, losses)
    places |= {(worker, step): None for worker in run.workers for step in steps}
    if by_loss and not (rules or steps):
        norms = [(w, s) for w in run.workers for s in run.scalars("gradient_norm", worker=w)]
        series = [*losses, *norms]
        places = {(w, step): None for w, each in series for step in suspects.outliers(each)}
    return places
