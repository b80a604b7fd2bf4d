"""`mothtrap.probe`: test a trained model, and store the findings as a run.

Shape suffixes: R = rows.
"""

from __future__ import annotations

import os
import sys
import time as clock
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.asked_report import ProbeReport
from mothtrap.behavior.assertion import Assertion
from mothtrap.behavior.assertion_probe import assertion_probes
from mothtrap.behavior.budget import PREDICTIONS, SECONDS
from mothtrap.behavior.installed_probes import selected
from mothtrap.behavior.pictures import checked, drawn
from mothtrap.behavior.probing import Outcome, run_probes
from mothtrap.behavior.reading import Loss
from mothtrap.behavior.subject import Refit, Subject
from mothtrap.behavior.subjects import Request, make_subject
from mothtrap.behavior.table import Table
from mothtrap.core.audited import AuditedFile, Origin
from mothtrap.core.config import Config, is_disabled, load_config
from mothtrap.core.probed import Probed
from mothtrap.core.runs import RunEnd, RunKind
from mothtrap.session import launch
from mothtrap.session.asked_models import wrapped
from mothtrap.session.audited_files import audited, origin_of
from mothtrap.session.probe_pictures import store_pictures
from mothtrap.store import layout
from mothtrap.store.finding_log import FindingLog
from mothtrap.store.finding_rows import write_rows


def probe(
    model: Any,
    X: Any,
    y: Any,
    *,
    train: tuple[Any, Any] | None = None,
    new: Any = None,
    task: str | None = None,
    classes: Sequence[Any] = (),
    monotone: Mapping[str, int | str] | None = None,
    expect_used: Sequence[str] = (),
    time: Any = None,
    about: Any = None,
    loss: Loss | None = None,
    refit: Refit | None = None,
    assertions: Sequence[Assertion] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    pictures: Sequence[str] = (),
    budget_s: float = SECONDS,
    predictions: int = PREDICTIONS,
    seed: int = 0,
    name: str | None = None,
    files: Mapping[str, str] | None = None,
    **settings: Any,
) -> ProbeReport:
    """Test a trained model on held-out rows, and report where it is wrong.

    Probes search for weaknesses in one half of the rows, and report only those that the other half
    confirms. The findings are stored as a run of kind `probe`.

    Args:
        model: a function that takes rows like `X` and returns numbers (R,), probabilities
            (R, K), or labels (R,), or a model of scikit-learn, XGBoost, LightGBM, CatBoost, Keras,
            PyTorch, or onnxruntime.
        X: held-out rows: a data frame, an array, or a mapping of columns.
        y: targets of the rows, shape (R,).
        train: training rows and targets, to compare with the held-out rows.
        new: rows that the model predicted later, or a tuple of rows and targets. They are
            compared with the training rows, or with the held-out rows if there are none.
        task: "classification" or "regression"; required if the model's output does not show it.
        classes: class labels in the order of the output's columns.
        monotone: "+" or "-" by column: the output must not decrease, or increase, as the column
            increases.
        expect_used: columns that the model should use.
        time: time of each row, shape (R,), or the name of the column with the time.
        about: further columns that are not passed to the model, such as metadata of images.
        loss: function of outputs and targets that returns one loss per row, shape (R,).
        refit: function of rows and targets that trains a new model and returns its predict
            function.
        assertions: made by `mothtrap.assertion` or `mothtrap.behavior.assertions`. All held-out
            rows are checked, even if `select` excludes other probes.
        select: prefixes of codes of the probes to run, e.g. ["BEH2"]; empty means all.
        ignore: prefixes of codes of probes to skip.
        pictures: names of pictures to store in the run, such as "residuals" or "grad_cam"; see
            `ProbeReport.figure`. "all" stores every picture that the model has.
        budget_s: time limit in seconds for all probes together.
        predictions: maximum number of rows to predict.
        seed: seed of all random choices.
        name: name of the run; by default `probe-` and the time.
        files: path by role ("model", "data", "training data"), to report who can change the files
            and which training run logged the model.
        **settings: keys of the configuration file, e.g. `runs_dir="runs"`.

    Returns:
        The findings, with methods to inspect the model further.

    Raises:
        ConfigError: data, targets, outputs, or settings do not fit together.
        MissingExtraError: scikit-learn is not installed.
        RunExistsError: a run with this name exists.
    """
    found = wrapped(model)
    config, _ = load_config(start=Path.cwd(), environ=os.environ, overrides=settings)
    known = audited({**files, "runs": config.runs_dir}) if files else ()
    asserted = assertion_probes(assertions)
    probes = (*asserted, *selected(select, ignore, further=[each.code for each in asserted]))
    wanted = checked(pictures)
    request = Request(
        task=task or found.task,
        classes=tuple(classes or found.classes),
        monotone=monotone or {},
        expect_used=tuple(expect_used),
        time=time,
        about=about,
        loss=loss,
        refit=refit or found.refit,
        network=found.network,
        files=known,
        origin=_origin(known, config),
        budget_s=budget_s,
        predictions=predictions,
        seed=seed,
    )
    subject, everything = make_subject(found.predict, X, y, train, request, new)
    outcome = run_probes(subject, probes, everything)
    path = None
    if not is_disabled(os.environ):
        path = store(subject, outcome, everything, config, name, wanted)
    return ProbeReport(subject, everything, outcome, path)


def store(
    subject: Subject,
    outcome: Outcome,
    everything: Table,
    config: Config,
    name: str | None,
    pictures: Sequence[str] = (),
) -> Path:
    """Write findings, rows, pictures, and the states of the probes as a run; return its folder.

    Raises:
        RunExistsError: the name is already used.
        OSError: the run cannot be written.
    """
    default = f"probe-{clock.strftime('%Y%m%d-%H%M%S')}"
    attempt = launch.create(
        name or default, sys.argv, config, numbered=name is None, kind=RunKind.PROBE
    )
    folder = layout.monitor_folder(attempt, 0)
    log = FindingLog(folder)
    log.append(outcome.findings, outcome.statuses)
    log.close()
    write_rows(folder, outcome.rows)
    store_pictures(attempt, *drawn(subject, pictures))
    layout.write_probed(attempt, _about(subject, outcome, everything))
    layout.write_end(attempt, RunEnd(exit_code=0, ended_s=clock.time()))
    return attempt.parent


def _about(subject: Subject, outcome: Outcome, everything: Table) -> Probed:
    loss_R: npt.NDArray[np.float64] = subject.judged.loss_R
    return Probed(
        rows=len(everything),
        judged=len(subject.judged),
        columns=everything.names[:200],
        task="regression" if subject.reading.is_regression else "classification",
        answers=subject.reading.form,
        loss=float(loss_R.mean()),
        predicted=subject.budget.predicted,
        seconds=round(subject.budget.elapsed_s, 2),
        left_out=outcome.left_out,
        seed=subject.seed,
        files=tuple(subject.options.files),
        origin=subject.options.origin,
    )


def _origin(files: Sequence[AuditedFile], config: Config) -> Origin | None:
    model = next((each for each in files if each.role == "model" and each.digest), None)
    return None if model is None else origin_of(model, config.runs_dir)
