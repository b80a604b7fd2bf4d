"""STR703: the model trains in evaluation mode."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import Evaluation, EvaluationPhase, TrainingMode
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED


@frozen
class EvalModeInTraining(Rule):
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

    code = "STR703"
    title = "training in evaluation mode"
    needs = (
        Need(facts=(TrainingMode,)),
        Need(facts=(Evaluation, EvaluationPhase), optional=True),
    )
    explains = (
        *UNLEARNED,
        "dead_units",
        "exploding_gradient",
        "loss_diverging",
        "overfit",
        "overtraining",
        "wrong_initial_loss",
    )

    steps: int = threshold(
        10,
        unit="steps in evaluation mode",
        source="chosen by hand: excludes transitions between modes",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every trained module and report the worst."""
        by_module: dict[str, list[TrainingMode]] = {}
        for mode in window.seen(TrainingMode):
            by_module.setdefault(mode.module, []).append(mode)
        if not by_module:
            raise NotEnoughData("no module was observed in a training step")
        judged = {
            name: modes
            for name, modes in by_module.items()
            if modes[-1].dropouts or modes[-1].norms
        }
        if not judged:
            raise NotApplicable("no trained model has dropout or batch norms")
        found = [finding for modes in judged.values() if (finding := self._judge(window, modes))]
        return sorted(found, key=lambda finding: (finding.severity.rank, finding.step))[:1]

    def _judge(self, window: Window, modes: list[TrainingMode]) -> Finding | None:
        last = modes[-1]
        lasted = window.last_step - last.step + 1
        if last.trains:
            return self._partly(window, last)
        if lasted < self.steps:
            return None
        trained_before = any(mode.trains for mode in modes[:-1])
        forgotten = trained_before and _evaluated_at(window, last)
        return self.finding(
            window,
            severity=Severity.ERROR if forgotten else Severity.WARNING,
            step=last.step,
            last_step=window.last_step,
            count=lasted,
            layers=(last.module,),
            message=(
                f"{last.module_type} has trained in evaluation mode for {lasted} steps (limit "
                f"{self.steps}), with {_effect(last)}"
                + (": train() was not called after an evaluation" if forgotten else "")
            ),
            evidence={
                "steps": lasted,
                "limit": self.steps,
                "dropouts": list(last.dropouts),
                "norms": list(last.norms),
                "trained_before": trained_before,
            },
            location=last.location,
        )

    def _partly(self, window: Window, mode: TrainingMode) -> Finding | None:
        if not mode.sleeping:
            return None
        return self.finding(
            window,
            severity=Severity.INFO,
            step=mode.step,
            layers=mode.sleeping,
            message=(
                f"in {mode.module_type}, {', '.join(mode.sleeping)} stay in evaluation mode while "
                "the rest is in training mode"
            ),
            evidence={"sleeping": list(mode.sleeping)},
            location=mode.location,
        )


def _evaluated_at(window: Window, mode: TrainingMode) -> bool:
    """Return whether the steps in evaluation mode follow an evaluation."""
    every = [*window.seen(EvaluationPhase), *window.seen(Evaluation)]
    return mode.step in [evaluation.step for evaluation in every]


def _effect(mode: TrainingMode) -> str:
    found = ["dropout off"] if mode.dropouts else []
    return " and ".join(found + (["batch norms using running statistics"] if mode.norms else []))
