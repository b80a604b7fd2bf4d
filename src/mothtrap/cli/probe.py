"""Test a trained model on held-out rows: where it is wrong, what it depends on."""

from __future__ import annotations

from pathlib import Path

import click

from mothtrap.cli._findings import fail_on_option, fails, format_option, show
from mothtrap.cli._group import Refusal
from mothtrap.cli._options import runs_dir_option


@click.command(name="probe")
@click.argument("words", metavar="[MODEL] DATA", nargs=-1, required=True)
@click.option("--target", required=True, metavar="COLUMN", help="The column of the targets.")
@click.option("--train", metavar="FILE", help="The rows that the model was trained on.")
@click.option("--new", metavar="FILE", help="Later rows to compare: a file, or a serve run.")
@click.option("--leave-out", metavar="COLUMNS", help="Columns that are not inputs of the model.")
@click.option("--task", type=click.Choice(["classification", "regression"]))
@click.option(
    "--classes", metavar="LABELS", help="Class labels, in the order of the model's output columns."
)
@click.option(
    "--monotone",
    metavar="COLUMN:+,...",
    help="The output must not fall (+) or rise (-) as this column increases.",
)
@click.option("--expect-used", metavar="COLUMNS", help="Columns that the model is meant to use.")
@click.option(
    "--time",
    "time",
    metavar="COLUMN",
    help="Column that orders the rows in time; not an input of the model.",
)
@click.option("--assert", "checks", metavar="FILE", help="Python file with assertions to check.")
@click.option("--select", metavar="CODES", help="Probes to run, by code or family: BEH2,BEH301.")
@click.option("--ignore", metavar="CODES", help="Probes to skip, by code or family.")
@click.option(
    "--pictures",
    metavar="NAMES",
    help="Pictures to store: residuals, quantiles, saliency, integrated_gradients, grad_cam, "
    "latent, latent_tsne, pruning, or all.",
)
@click.option(
    "--budget", type=float, default=120.0, show_default=True, help="Time limit in seconds."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random choices.")
@click.option("--build", metavar="MODULE:FUNCTION", help="Function that returns a PyTorch module.")
@click.option("--weights", metavar="FILE", help="Weights for --build, as safetensors.")
@click.option(
    "--trust-pickle",
    is_flag=True,
    help="Load a pickle file, or all types of a skops file; this can run the code in it.",
)
@click.option("--name", metavar="NAME", help="Name of the run.")
@format_option
@fail_on_option(default=None)
@runs_dir_option
@click.pass_context
def command(
    ctx: click.Context,
    words: tuple[str, ...],
    target: str,
    train: str | None,
    new: str | None,
    leave_out: str | None,
    task: str | None,
    classes: str | None,
    monotone: str | None,
    expect_used: str | None,
    time: str | None,
    checks: str | None,
    select: str | None,
    ignore: str | None,
    pictures: str | None,
    budget: float,
    seed: int,
    build: str | None,
    weights: str | None,
    trust_pickle: bool,
    name: str | None,
    form: str,
    fail_on: str | None,
    runs_dir: str | None,
) -> None:
    """Test a trained model on held-out rows: where it is wrong, what it depends on.

    MODEL is a model file of XGBoost (.json, .ubj), LightGBM (.txt), CatBoost (.cbm), Keras
    (.keras), ONNX, or skops, or a function that takes rows and returns predictions
    (package.module:predict). DATA is a CSV, Parquet, Arrow, or JSON-lines file, or a safetensors
    file with arrays, such as images. The findings are stored as a run.

    \b
    mothtrap probe model.ubj held_out.parquet --target y --train train.parquet
    mothtrap probe app.model:predict_proba held_out.csv --target y --monotone income:+
    mothtrap probe --build net:make --weights best.safetensors held_out.csv --target y
    """
    from mothtrap.session.asked_models import from_words
    from mothtrap.session.assertion_file import assertions_in
    from mothtrap.session.probe_data import column_of, read_new, read_table
    from mothtrap.session.probing import probe

    if len(words) != (1 if build else 2):
        raise Refusal("expected MODEL and DATA, or only DATA with --build")
    data = words[-1]
    model = from_words(
        None if build else words[0], build=build, weights=weights, trust_pickle=trust_pickle
    )
    hidden = (*_list(leave_out), *((time,) if time else ()))
    X, y = read_table(data, target, hidden)
    report = probe(
        model,
        X,
        y,
        train=read_table(train, target, hidden) if train else None,
        new=read_new(new, target, hidden) if new else None,
        task=task,
        classes=_labels(classes, y),
        monotone=_directions(monotone),
        expect_used=_list(expect_used),
        time=column_of(data, time) if time else None,
        assertions=assertions_in(checks) if checks else (),
        select=_list(select),
        ignore=_list(ignore),
        pictures=_list(pictures),
        budget_s=budget,
        seed=seed,
        name=name,
        files=_files(words, weights, train, new),
        runs_dir=runs_dir,
    )
    if report.path is None:
        for finding in report.findings:
            click.echo(f"{finding.code} {finding.severity}: {finding.message}")
        return
    _show(ctx, report.path, form, fail_on)


def _show(ctx: click.Context, path: object, form: str, fail_on: str | None) -> None:
    from mothtrap.monitor.catalogue import explains
    from mothtrap.reader.run import open_run
    from mothtrap.report.summary import summarize
    from mothtrap.store.naming import name_here

    opened = open_run(path)  # type: ignore[arg-type]
    summary = summarize(opened, explains(), called=name_here(opened.path))
    show(summary, form)
    if fails(summary, fail_on):
        ctx.exit(1)


def _files(
    words: tuple[str, ...], weights: str | None, train: str | None, new: str | None
) -> dict[str, str]:
    """Return the files that a command names, by role; functions are left out."""
    named: dict[str, str | None] = {
        "model": weights or words[0],
        "data": words[-1],
        "training data": train,
        "new data": new,
    }
    if weights is None and len(words) == 1:
        named["model"] = None
    return {role: path for role, path in named.items() if path and Path(path).exists()}


def _list(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (text or "").split(",")))


def _labels(text: str | None, y: object) -> tuple[object, ...]:
    """Return labels of the type of the targets."""
    words = _list(text)
    if words and getattr(y, "dtype", None) is not None and y.dtype.kind in "iu":  # type: ignore[attr-defined]
        try:
            return tuple(int(word) for word in words)
        except ValueError as err:
            raise Refusal(f"--classes {text!r}: expected whole numbers, like the targets") from err
    return words


def _directions(text: str | None) -> dict[str, str]:
    found = {}
    for word in _list(text):
        column, colon, sign = word.rpartition(":")
        if not colon or sign not in ("+", "-"):
            raise Refusal(f"--monotone {word!r}: expected COLUMN:+ or COLUMN:-")
        found[column] = sign
    return found
