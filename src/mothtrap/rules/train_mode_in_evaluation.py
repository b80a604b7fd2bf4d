"""STR704: a model is evaluated in training mode."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.evaluations import EvaluationPhase
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._losses import has_players

DROPOUT_FIX, CREATED_FIX = "F.dropout", "in `__init__`"
"""Parts of the fixes for a dropout that does not get the mode, and for one made in `forward`."""


@frozen
class TrainModeInEvaluation(Rule):
    """A model is evaluated in training mode.

    What it detects:
        Evaluations of a model during training in which its dropout or batch norm layers behave as
        in training. PyTorch: also modules whose `forward` reads `self.training` to call
        `functional.dropout` or to update buffers, and modules that call `functional.dropout`
        without `training=self.training` or create `nn.Dropout` in `forward`, so that values are
        also dropped in evaluation mode. With PyTorch, an evaluation is recognized even without
        `torch.no_grad()`: no backward pass follows its forward passes.

    Why it matters:
        The evaluation measures a different model: units are dropped at random, and each row is
        normalized by its batch. Batch norms also update their running statistics with evaluation
        data.

    Fires:
        If every recorded evaluation of a model after its first step ran in training mode. There
        must be `forwards` forward passes in total, or `labelled` evaluations that compute a loss.
        Error when the evaluations compute a loss from targets, and have several forward passes each
        or are `steps` training steps apart (the median). Warning when they are closer together.
        Warning when no loss was recorded, but the output has the shape of the output from which the
        training loss is computed (as for an accuracy). Then `evaluations` evaluations must be
        `steps` steps apart, or each must have several forward passes. Warning for one or two
        evaluations of one forward pass each, after `trained` training steps or more, if they
        compute a loss, or give an output of this shape for at least `rows` rows with dropout. Info
        when `evaluations` evaluations are `steps` steps apart, and nothing else is known.
        Dropout that is also active in evaluation mode is at most a warning.

    Stays quiet:
        Models that run in evaluation mode in any evaluation, or in a part of it, because the user
        then sets the mode on purpose. Models that no optimizer holds (teachers, averaged copies).
        Models without dropout or batch norm. The same input passed several times, as for Monte
        Carlo dropout, unless a loss follows each time. Forward passes at nearly every step without
        a loss, because they are part of training (pseudo labels, a generator's samples). In a GAN
        at most info when no loss was recorded.

    What to do:
        - PyTorch: Call `model.eval()` before the evaluation, and `model.train()` after it.
        - PyTorch: Pass the mode to the function: `F.dropout(x, p, training=self.training)`. Without
          it, dropout stays on even after `model.eval()`. Or use `nn.Dropout(p)`.
        - PyTorch: Create the dropout in `__init__`, `self.drop = nn.Dropout(p)`, and call it in
          `forward`. `model.eval()` only switches modules that are attributes of the model.
        - Keras: Call the model with `training=False` in the evaluation, the default.
        - JAX: Switch dropout off in the evaluation: `deterministic=True` in flax, and
          `eqx.nn.inference_mode(model)` in equinox. Let batch norms use their averages:
          `use_running_average=True`.
        - PyTorch: Note that `torch.no_grad()` only disables gradients; it does not change the mode.

    Example:
        with torch.no_grad(): loss = loss_fn(model(x_val), y_val)
        model.eval()
        with torch.no_grad(): loss = loss_fn(model(x_val), y_val)
        model.train()

    References:
        PyTorch documentation, Autograd mechanics, Evaluation mode (`nn.Module.eval()`),
        https://docs.pytorch.org/docs/stable/notes/autograd.html
    """

    code = "STR704"
    title = "evaluation in training mode"
    needs = (
        Need(facts=(EvaluationPhase,)),
        Need(facts=(LossCall,), scalars=("loss",), optional=True),
    )
    explains = ("labels_unrelated", "overfit", "overtraining")

    forwards: int = threshold(3, unit="forward passes", source="chosen by hand: excludes dry runs")
    steps: int = threshold(
        5,
        unit="training steps between two evaluations",
        source="chosen by hand: forward calls in every step are part of training",
    )
    trained: int = threshold(
        50,
        unit="training steps before an evaluation of one forward pass",
        source="chosen by hand: late evaluations measure the trained model",
    )
    rows: int = threshold(
        50,
        unit="rows in one forward pass",
        source="chosen by hand: fewer rows may be samples for display",
    )
    evaluations: int = threshold(3, unit="evaluations", source="chosen by hand")
    labelled: int = threshold(
        2,
        unit="evaluations that compute a loss",
        source="chosen by hand: with so few, one forward call each is enough",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check every module that is evaluated, and report the worst."""
        by_module: dict[str, list[EvaluationPhase]] = {}
        for phase in window.seen(EvaluationPhase):
            if phase.step > 0:
                by_module.setdefault(phase.module, []).append(phase)
        if not by_module:
            raise NotEnoughData("no evaluation of a training model was recorded")
        ill = {
            name: phases
            for name, phases in by_module.items()
            if all((p.trains and _active(p)) or p.dropping for p in phases)
        }
        if not ill and not any(_active(p) or not p.trains for p in _all(by_module)):
            raise NotApplicable("no model that is evaluated has dropout or batch norms")
        found = [finding for phases in ill.values() if (finding := self._judge(window, phases))]
        if not found and all(name in ill and self._waits(by_module[name]) for name in by_module):
            count = max(map(len, ill.values()))
            raise NotEnoughData(f"too few evaluations in training mode were recorded: {count}")
        return sorted(found, key=lambda finding: (finding.severity.rank, finding.step))[:1]

    def _judge(self, window: Window, phases: list[EvaluationPhase]) -> Finding | None:
        forwards = sum(phase.forwards for phase in phases)
        few = forwards < self.forwards and not self._shows_labels(phases)
        single = few and self._are_tests(window, phases)
        if (few and not single) or any(_averages(phase) for phase in phases):
            return None
        severity = Severity.WARNING if single else self._severity(window, phases)
        if severity is None:
            return None
        first, last = phases[0], phases[-1]
        always = bool(first.dropping)
        if always and severity is Severity.ERROR:
            severity = Severity.WARNING
        labelled = sum(phase.labelled for phase in phases)
        return self.finding(
            window,
            title="dropout in evaluation" if always else self.title,
            severity=severity,
            step=first.step,
            last_step=last.step,
            count=len(phases),
            mode=Mode.EVAL.value,
            layers=tuple(
                dict.fromkeys(
                    (first.module, *first.dropouts, *first.norms, *first.updating, *first.dropping)
                )
            ),
            confidence="high" if severity is Severity.ERROR else "medium",
            message=(
                f"{first.module_type} ran {forwards} times in {len(phases)} "
                f"evaluation{'s' * (len(phases) > 1)}, {_words(first)}"
            ),
            evidence={
                "evaluations": len(phases),
                "forwards": forwards,
                "losses": labelled,
                "dropouts": list(first.dropouts),
                "norms": list(first.norms),
                "updating": list(first.updating),
                "dropping": list(first.dropping),
            },
            fixes=_fixes(self.fixes(window), first),
            location=first.location,
        )

    def _are_tests(self, window: Window, phases: list[EvaluationPhase]) -> bool:
        """Return whether a few evaluations, of one forward pass each, measure a trained model."""
        if has_players(window) or any(phase.steps < self.trained for phase in phases):
            return False
        if all(phase.labelled for phase in phases):
            return True
        many = all((phase.output_shape or (0,))[0] >= self.rows for phase in phases)
        drops = all(phase.dropouts or phase.dropping for phase in phases)
        return many and drops and _feeds_the_loss(window, phases)

    def _shows_labels(self, phases: list[EvaluationPhase]) -> bool:
        """Return whether every evaluation computed a loss, and there were enough of them."""
        return len(phases) >= self.labelled and all(phase.labelled for phase in phases)

    def _waits(self, phases: list[EvaluationPhase]) -> bool:
        """Return whether more evaluations like these would be reported."""
        if any(_averages(phase) for phase in phases):
            return False
        if self._shows_labels(phases):
            return False
        few = len(phases) < self.evaluations and not all(phase.labelled for phase in phases)
        return few or sum(phase.forwards for phase in phases) < self.forwards

    def _severity(self, window: Window, phases: list[EvaluationPhase]) -> Severity | None:
        apart = float(np.median([phase.steps for phase in phases])) >= self.steps
        several = all(phase.forwards >= self.forwards for phase in phases)
        if all(phase.labelled for phase in phases):
            return Severity.ERROR if apart or several else Severity.WARNING
        enough = len(phases) >= self.evaluations
        if not enough and not any(phase.dropouts or phase.dropping for phase in phases):
            return None  # batch norm statistics that are computed again
        if not apart or not (enough or several):
            return None
        if _feeds_the_loss(window, phases) and not has_players(window):
            return Severity.WARNING
        return Severity.INFO if enough else None


def _averages(phase: EvaluationPhase) -> bool:
    """Return whether an evaluation may average outputs for the same input (Monte Carlo dropout).

    It does not if a loss follows each forward pass, as when different rows of a graph are evaluated
    in turn.
    """
    return phase.repeated and phase.labelled < phase.forwards


def _words(phase: EvaluationPhase) -> str:
    if not phase.dropping:
        return f"always in training mode: {_active(phase)} active"
    why = "the call does not pass `training=self.training`"
    if phase.created:
        why = "`forward` creates the module, and a new module is in training mode"
    return (
        f"and the dropout in the `forward` of {', '.join(phase.dropping[:3])} was always active, "
        f"because {why}"
    )


def _fixes(every: tuple[str, ...], phase: EvaluationPhase) -> tuple[str, ...]:
    """Return the fixes for a missing `model.eval()`, or for a dropout that is always active."""
    kinds = [(DROPOUT_FIX in fix, CREATED_FIX in fix) for fix in every]
    always = bool(phase.dropping)
    wanted = (always and not phase.created, always and phase.created)
    chosen = tuple(fix for fix, kind in zip(every, kinds, strict=True) if kind == wanted)
    return chosen or every


def _active(phase: EvaluationPhase) -> str:
    """Return the layers that behaved as in training, by kind: `dropout (3) and batch norm (1)`."""
    kinds = (
        ("dropout", phase.dropouts),
        ("batch norm", phase.norms),
        ("updates of buffers", phase.updating),
    )
    return " and ".join(f"{kind} ({', '.join(paths[:3])})" for kind, paths in kinds if paths)


def _feeds_the_loss(window: Window, phases: list[EvaluationPhase]) -> bool:
    """Return whether the training loss is computed on rows of the output's shape."""
    shapes = {
        call.prediction_shape[1:]
        for call in window.seen(LossCall)
        if call.prediction_shape and call.mode is Mode.TRAIN
    }
    return all(phase.output_shape and phase.output_shape[1:] in shapes for phase in phases)


def _all(by_module: dict[str, list[EvaluationPhase]]) -> list[EvaluationPhase]:
    return [phase for phases in by_module.values() for phase in phases]
