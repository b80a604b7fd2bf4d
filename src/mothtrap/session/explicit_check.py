"""`mothtrap.check`: check a model, a loader, and a loss from a script, a test, or a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mothtrap.checks.check import Check, result_of
from mothtrap.checks.parts import chosen
from mothtrap.checks.step import Step
from mothtrap.checks.subject import DataSet, Source, Subject
from mothtrap.core.config import Config
from mothtrap.core.facts.checks import CheckResult
from mothtrap.core.findings import Finding, Findings, Severity
from mothtrap.monitor.catalogue import load_checks, rule_classes
from mothtrap.report.checks import lines
from mothtrap.report.layer_table import as_text
from mothtrap.report.style import PLAIN
from mothtrap.session.adapters import load
from mothtrap.tracing.handle import AdapterSpec

CHECKED = ("keras", "torch")
"""Frameworks whose models can be checked; Keras models may also be PyTorch modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Results of `mothtrap.check`.

    Attributes:
        results: one result per check, with its state, findings, and duration in seconds.
    """

    results: Sequence[CheckResult]

    @property
    def findings(self) -> Findings:
        """Findings of all checks."""
        return Findings(found for result in self.results for found in result.found)

    @property
    def ok(self) -> bool:
        """True if no check found an error."""
        return all(found.severity is not Severity.ERROR for found in self.findings)

    @property
    def figures(self) -> dict[str, dict[str, float]]:
        """Numbers that the checks measured, by code of the check and name of the number."""
        return {result.code: result.figures for result in self.results if result.figures}

    def table(self) -> str:
        """Return the table of layers as text; empty if check PRE501 could not make it."""
        rows = next((result.layers for result in self.results if result.layers), ())
        return as_text(rows) if rows else ""

    def __str__(self) -> str:
        told = [_line(found) for found in self.findings]
        return "\n".join([*told, *lines(self.results, rule_classes(), PLAIN)])


def check(
    model: Any,
    loader: Iterable[Any],
    loss_fn: Callable[..., Any] | None = None,
    optimizer: Any = None,
    *,
    step: Callable[[Any], Any] | None = None,
    eval_loader: Iterable[Any] | None = None,
    select: Sequence[str] = (),
    budget_s: float = 60.0,
) -> CheckReport:
    """Check a model before it is trained.

    Weights, optimizer state, gradients, modes, and random states are restored afterwards.

    Args:
        model: a PyTorch model, or a compiled Keras model.
        loader: iterable of batches, of which up to five are used. Data checks read up to 20,000
            samples of the dataset of a `DataLoader` or `tf.data.Dataset`, or all batches of a
            list.
        loss_fn: called with the output of `model(*batch[:-1])` and `batch[-1]`. Not needed for
            a Keras model, whose loss and optimizer are set by `compile`.
        optimizer: the model's optimizer; None means Adam with a learning rate of 0.001.
        step: function that takes a batch and returns its loss; use it if `loss_fn` does not fit.
        eval_loader: iterable of evaluation batches, of the same form as `loader`.
        select: codes of the checks to run, or prefixes of codes; empty means all.
        budget_s: time limit in seconds for all checks together.

    Raises:
        MothtrapError: the loader yields no batch, the loss of a batch cannot be computed without
            `step`, or a Keras model is not compiled.
        ConfigError: a code does not exist.
        TypeError: the model is neither a PyTorch nor a Keras model.
    """
    made = _adapter(model)
    recorded = recorded_step(model, loader, loss_fn, step, optimizer)
    until = time.monotonic() + budget_s
    sets = _sets(made, recorded, loader, eval_loader)
    missing: dict[Source, str] = {}
    if not sets:
        missing["datasets"] = "the loader is neither a DataLoader of samples nor a list of batches"
    results = []
    for one in chosen(load_checks(Config(select=tuple(select)) if select else Config())):
        subject = Subject(
            recorded=recorded,
            datasets=sets,
            task="" if recorded.loss is None else recorded.loss.task,
            missing=missing,
            deadline=until,
        )
        results.append(_made(one, subject, budget_s))
    return CheckReport(results=results)


def recorded_step(
    model: Any,
    loader: Iterable[Any],
    loss_fn: Callable[..., Any] | None,
    step: Callable[[Any], Any] | None,
    optimizer: Any,
) -> Step:
    """Return a step of the model on the first batch; arguments and errors as in `check`."""
    made = _adapter(model)
    assert made.checks.step is not None
    found: Step = made.checks.step(model, loader, loss_fn, step, optimizer)
    return found


def _adapter(model: object) -> AdapterSpec:
    """Return the adapter that checks a model.

    Raises:
        TypeError: there is none.
    """
    for framework in CHECKED:
        if framework in sys.modules:
            made = load(framework)
            if made.checks.step is not None and made.accepts(model):
                return made
    raise TypeError(
        "check: expected a torch.nn.Module or a compiled keras.Model, not "
        f"{type(model).__qualname__}"
    )


def _sets(
    made: AdapterSpec, recorded: Step, loader: object, eval_loader: object
) -> tuple[DataSet, ...]:
    """Return the datasets of the given loaders, except datasets that can be read only once."""
    if made.checks.data_set is None:
        return ()
    found = [made.checks.data_set(loader, "train", getattr(recorded, "given", ()))]
    if eval_loader is not None:
        found.append(made.checks.data_set(eval_loader, "evaluation"))
    return tuple(one for one in found if one is not None)


def _made(one: Check, subject: Subject, budget_s: float) -> CheckResult:
    if subject.left_s > 0:
        return result_of(one, subject, 0)
    reason = f"the budget of {budget_s:.0f} s was used up"
    return CheckResult(step=0, code=one.code, state="not_enough_data", reason=reason)


def _line(found: Finding) -> str:
    return f"{found.severity}: {found.code} {found.name}: {found.message}"
