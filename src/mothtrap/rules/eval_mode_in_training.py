"""STR703: the model trains in evaluation mode."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation, EvaluationPhase, TrainingMode
from mothtrap.core.findings import Severity
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@rule(
    "STR703",
    title="training in evaluation mode",
    needs=[Need(facts=(TrainingMode,)), Need(facts=(Evaluation, EvaluationPhase), optional=True)],
    explains=(
        *UNLEARNED,
        "dead_units",
        "exploding_gradient",
        "loss_diverging",
        "overfit",
        "overtraining",
        "wrong_initial_loss",
    ),
)
def eval_mode_in_training(
    window: Window,
    *,
    steps: int = threshold(
        10,
        unit="steps in evaluation mode",
        source="chosen by hand: excludes transitions between modes",
    ),
) -> Found | None:
    """The model trains in evaluation mode.

    What it detects:
        Training steps of a model with dropout or batch norms while it is in evaluation mode.

    Why it matters:
        Dropout is off, and batch norms use running statistics that no longer follow the weights.
        The model trains without the intended regularization, or with outdated normalization.

    Fires:
        Error when the model was in training mode, an evaluation ran, and `steps` steps later the
        model is still in evaluation mode, because `train()` was not called again. Warning when
        it has been in evaluation mode from the first step, or no evaluation ran before. Info
        when the model is in training mode but some dropouts or batch norms are not.

    Stays quiet:
        Without dropout (with a probability above 0) or batch norms with running statistics,
        because the mode then has no effect. For a mode that changes from step to step. For
        models that run in evaluation mode but do not train.

    What to do:
        - PyTorch: Call `model.train()` at the start of every epoch, or after each evaluation.
        - PyTorch: Make the evaluation function restore the mode before it returns.
        - PyTorch: To freeze batch norms on purpose, call `eval()` on the batch norms only.
        - Keras: Call the model with `training=True` inside the tape: `model(x,
          training=True)`.
        - Keras: Override `train_step` with `y_pred = self(x, training=True)`; only
          `test_step` uses `training=False`.
        - JAX: Call the model in training mode in the loss: `use_running_average=False`, with
          `mutable=["batch_stats"]` in flax.linen, and return the new statistics.

    Example:
        model.train()
        for epoch in range(10):                   # stays in eval mode after evaluate()
            train_one_epoch(model); evaluate(model)
        for epoch in range(10):
            model.train(); train_one_epoch(model)
            model.eval(); evaluate(model)

    References:
        PyTorch documentation, Autograd mechanics, Evaluation mode (`nn.Module.eval()`),
        https://docs.pytorch.org/docs/stable/notes/autograd.html
    """
    by_module: dict[str, list[TrainingMode]] = {}
    for mode in window.seen(TrainingMode):
        by_module.setdefault(mode.module, []).append(mode)
    if not by_module:
        raise NotEnoughData("no module was observed in a training step")
    judged = [modes for modes in by_module.values() if modes[-1].dropouts or modes[-1].norms]
    if not judged:
        raise NotApplicable("no trained model has dropout or batch norms")
    found = [one for modes in judged if (one := _judge(window, modes, steps))]
    return min(
        found, key=lambda one: (Severity(one.severity or "warning").rank, one.step), default=None
    )


def _judge(window: Window, modes: list[TrainingMode], steps: int) -> Found | None:
    last = modes[-1]
    lasted = window.last_step - last.step + 1
    if last.trains:
        return _partly(last)
    if lasted < steps:
        return None
    trained_before = any(mode.trains for mode in modes[:-1])
    forgotten = trained_before and _evaluated_at(window, last)
    return Found.of(
        last,
        f"{last.module_type} has trained in evaluation mode for {lasted} steps (limit {steps}), "
        "with "
        f"{_effect(last)}" + (": train() was not called after an evaluation" if forgotten else ""),
        severity=Severity.ERROR if forgotten else Severity.WARNING,
        last_step=window.last_step,
        count=lasted,
        layers=(last.module,),
        evidence={
            "steps": lasted,
            "limit": steps,
            "dropouts": list(last.dropouts),
            "norms": list(last.norms),
            "trained_before": trained_before,
        },
    )


def _partly(mode: TrainingMode) -> Found | None:
    if not mode.sleeping:
        return None
    return Found.of(
        mode,
        f"in {mode.module_type}, {', '.join(mode.sleeping)} stay in evaluation mode while the rest "
        "is in training mode",
        severity=Severity.INFO,
        layers=mode.sleeping,
        evidence={"sleeping": list(mode.sleeping)},
    )


def _evaluated_at(window: Window, mode: TrainingMode) -> bool:
    """Return whether the steps in evaluation mode follow an evaluation."""
    every = [*window.seen(EvaluationPhase), *window.seen(Evaluation)]
    return mode.step in [evaluation.step for evaluation in every]


def _effect(mode: TrainingMode) -> str:
    found = ["dropout off"] if mode.dropouts else []
    return " and ".join(found + (["batch norms using running statistics"] if mode.norms else []))
