"""Assertions about a model, for tests; each runs one check of `mothtrap.check`.

Unless they list their arguments, they take the arguments of `assert_gradients_reach_all`.

An assertion raises `AssertionError` with the text of the finding, or with the reason if the check
could not decide. Weights and random states are restored afterwards.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from mothtrap.checks.check import result_of
from mothtrap.checks.subject import Subject
from mothtrap.core.config import Config
from mothtrap.core.facts.checks import CheckResult
from mothtrap.monitor.catalogue import load_checks
from mothtrap.reader.run import open_run
from mothtrap.session.explicit_check import check
from mothtrap.testing.value_asserts import assert_beats as assert_beats
from mothtrap.testing.value_asserts import assert_inputs as assert_inputs
from mothtrap.testing.value_asserts import assert_outputs_normalized as assert_outputs_normalized
from mothtrap.testing.value_asserts import assert_repeatable as assert_repeatable
from mothtrap.testing.value_asserts import assert_trains_like as assert_trains_like
from mothtrap.testing.value_asserts import set_of

Loss = Callable[..., Any] | None


def assert_gradients_reach_all(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that every parameter of a called layer gets a gradient (PRE101).

    Args:
        model: the model.
        loader: iterable of batches, e.g. a list with one batch.
        loss: called with the output of `model(*batch[:-1])` and `batch[-1]`.
        **more: `optimizer` and `step`, as in `mothtrap.check`.

    Raises:
        AssertionError: some parameter gets no gradient, or the check could not decide.
    """
    _assert("PRE101", model, loader, loss, more)


def assert_rows_independent(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that the output of a row does not depend on the other rows (STR707)."""
    _assert("STR707", model, loader, loss, more)


def assert_causal(model: Any, loader: Iterable[Any], loss: Loss = None, **more: Any) -> None:
    """Assert that a sequence model does not see the element that it predicts (PRE102)."""
    _assert("PRE102", model, loader, loss, more)


def assert_initial_loss(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that the loss of an untrained model equals the loss from guessing (PRE103)."""
    _assert("PRE103", model, loader, loss, more)


def assert_overfits(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that the model can overfit one batch (PRE104)."""
    _assert("PRE104", model, loader, loss, more)


def assert_uses_input(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that the model learns more from its inputs than without them (PRE105)."""
    _assert("PRE105", model, loader, loss, more)


def assert_evaluation_repeatable(
    model: Any, loader: Iterable[Any], loss: Loss, **more: Any
) -> None:
    """Assert that evaluation mode gives the same output twice (PRE109)."""
    _assert("PRE109", model, loader, loss, more)


def assert_same_after_reload(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that a checkpoint contains all state of the model (PRE202)."""
    _assert("PRE202", model, loader, loss, more)


def assert_targets_used(model: Any, loader: Iterable[Any], loss: Loss, **more: Any) -> None:
    """Assert that the loss depends on the targets (PRE107)."""
    _assert("PRE107", model, loader, loss, more)


def assert_architecture(
    model: Any,
    loader: Iterable[Any],
    loss: Loss = None,
    *,
    layers: int | None = None,
    parameters: int | None = None,
    output_shape: tuple[int, ...] | None = None,
    **more: Any,
) -> None:
    """Assert that the model calls all of its layers, and has the expected size (PRE501).

    Args:
        model: the model.
        loader: iterable of batches, e.g. a list with one batch.
        loss: called with the output of `model(*batch[:-1])` and `batch[-1]`.
        layers: expected number of layers that contain no other layers; None = not asserted.
        parameters: expected number of parameters; None = not asserted.
        output_shape: expected shape of the last layer's output, without the batch dimension;
            None = not asserted.
        **more: `optimizer` and `step`, as in `mothtrap.check`.
    """
    [result] = check(model, loader, loss, select=("PRE501",), **more).results
    _passed(result)
    rows = [row for row in result.layers if row.part == "layer"]
    last = rows[-1].output[1:] if rows else ()
    found = {
        "layers": (layers, len(rows)),
        "parameters": (parameters, sum(one.parameters for one in rows)),
        "output_shape": (output_shape, last),
    }
    for name, (expected, seen) in found.items():
        if expected is not None and expected != seen:
            raise AssertionError(f"the model has {name} {seen}, expected {expected}")


def assert_disjoint(train: Iterable[Any], evaluation: Iterable[Any]) -> None:
    """Assert that no evaluation row is also a training row (PRE301).

    Args:
        train: a PyTorch or Keras loader, a list of batches, or an array of inputs, shape (rows,
            ...).
        evaluation: the evaluation data, in the same form.
    """
    subject = Subject(datasets=(set_of(train, "train"), set_of(evaluation, "evaluation")))
    [check_of_rows] = load_checks(Config(select=("PRE301",)))
    _passed(result_of(check_of_rows, subject, 0))


def assert_script_passes(
    command: Sequence[str],
    checks: Sequence[str] = (),
    *,
    budget_s: float = 120.0,
    layers: int | None = None,
    parameters: int | None = None,
) -> None:
    """Assert that `mothtrap check` finds nothing in a script.

    Args:
        command: the script and its arguments, or a program and its arguments.
        checks: codes of checks that must run and pass. By default no check may report a finding,
            and at least one check must run.
        budget_s: time limit in seconds for all checks together.
        layers: expected number of layers; None = not asserted.
        parameters: expected number of parameters; None = not asserted.

    Raises:
        AssertionError: a check reported a finding, or a required check could not decide.
    """
    selected = ("--select", ",".join((*checks, "PRE501"))) if checks else ()
    with tempfile.TemporaryDirectory() as folder:
        words = ["--runs-dir", folder, "--name", "check", "--budget", str(budget_s), *selected]
        made = subprocess.run(
            [sys.executable, "-m", "mothtrap", "check", *words, "--", *command],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if made.returncode:
            raise AssertionError(f"mothtrap check ended with {made.returncode}:\n{made.stderr}")
        results = open_run(Path(folder) / "check").observations(CheckResult)
    for result in results:
        if result.code in checks:
            _passed(result)
        for name, expected in {"layers": layers, "parameters": parameters}.items():
            seen = result.figures.get(name)
            if result.layers and expected is not None and seen != expected:
                raise AssertionError(f"the model has {seen:.0f} {name}, expected {expected}")


def _assert(code: str, model: Any, loader: Iterable[Any], loss: Loss, more: dict[str, Any]) -> None:
    __tracebackhide__ = True  # pytest shows the test, not the frames of this module
    [result] = check(model, loader, loss, select=(code,), **more).results
    _passed(result)


def _passed(result: CheckResult) -> None:
    """Raise an error with the text of the finding, or the reason if the check could not decide."""
    __tracebackhide__ = True
    code = result.code
    if result.found:
        raise AssertionError("\n".join(f"{code}: {found.message}" for found in result.found))
    if result.state != "done":
        raise AssertionError(f"{code} could not decide: {result.reason}")
