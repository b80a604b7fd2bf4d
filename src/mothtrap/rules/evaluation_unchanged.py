"""LOS413: every evaluation gives exactly the same loss."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.evaluations import (
    BootstrappedTargets,
    EvaluatedCopy,
    Evaluation,
    EvaluationPhase,
)
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.facts.pairs import SimilarityLoss
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._evaluations import Evaluated, evaluated
from mothtrap.rules._loss_calls import POLICY_GAIN

COPY_POLICY = (
    "Copy the new weights to the policy that acts after each update: "
    "`policy_old.load_state_dict(policy.state_dict())`."
)


@frozen
class EvaluationUnchanged(Rule):
    """Every evaluation gives exactly the same loss.

    What it detects:
        Evaluation losses that are bit-for-bit equal from the first evaluation, while the training
        loss changes. Also a copy of the trained model whose weights are equal in every evaluation,
        no matter what is computed from its output. Also a target network that never changes. Also
        a compiled function of JAX that gets the trained weights and does not use them.

    Why it matters:
        New weights or new rows change the loss at least in its last digit. If it stays equal, the
        evaluated model does not change with training. It may be an old copy of the model, an
        average that is never updated, weights reloaded before each evaluation, or an output that
        does not depend on the weights. The targets from a target network that never changes
        are those of an untrained model, so the model can learn nothing better.

    Fires:
        Warning when all evaluations at one line, at least `evaluations` of them, give the same
        nonzero loss, with at least `steps` steps between any two evaluations. PyTorch: also when a
        copy, such as an `AveragedModel`, has the same weights in at least `copies` evaluations over
        `copy_steps` steps, and the trained model itself is never evaluated; for a policy that
        chooses the actions, over `target_steps` steps. Info when a copy that computes the targets
        of squared or absolute errors, from other data than the predictions in `target_looks` steps,
        has the same weights for `target_steps` steps, and a warning after `many_target_steps`. The
        same if the loss consists of similarities, as in BYOL, whatever data the copy gets. JAX: a
        warning when a function gets the newest weights in `old_evaluations` evaluations, but its
        results depend on other arrays of the same shapes, which it read when it was compiled.

    Stays quiet:
        For a loss of exactly 0, if the training loss is also constant, and if the loss changed in
        any evaluation. For copies that are called with the data of the trained model, such as a
        teacher, a reference model, or a random network to be predicted. For class losses.

    What to do:
        - Evaluate the model that is trained: check whether a copy, an average, or reloaded
          weights are evaluated instead, and whether they get the new weights.
        - PyTorch: Update an averaged model after each step: `averaged.update_parameters(model)`.
        - Keras, JAX: Update an averaged model after each step.
        - PyTorch: Update a target network every few hundred steps:
          `target.load_state_dict(model.state_dict())`. Or move it a little in each step:
          `p_target.lerp_(p, 0.005)`.
        - Keras, JAX: Update a target network every few hundred steps. Or move it a little in each
          step: `target = 0.995 * target + 0.005 * model`, for each parameter.

    Example:
        averaged = copy.deepcopy(model)                 # and never updated
        averaged = AveragedModel(model); ...; averaged.update_parameters(model)

    References:
        PyTorch, weight averaging, https://docs.pytorch.org/docs/stable/optim.html
    """

    code = "LOS413"
    needs = (
        Need(facts=(Evaluation,)),
        Need(facts=(EvaluatedCopy, EvaluationPhase, BootstrappedTargets), optional=True),
        Need(facts=(LossCall, SimilarityLoss), optional=True),
        Need(scalars=("loss",), optional=True),
    )
    proof = Proof(title="Evaluation loss", scalars=("loss",), reference=("value",))
    explains = ("overtraining", "labels_unrelated", "overfit", "stopped_too_late")

    evaluations: int = threshold(
        4,
        unit="evaluations",
        source=("chosen by hand: a changing model never repeats a loss this often"),
    )
    steps: int = threshold(1, unit="optimizer steps", source="chosen by hand")
    old_evaluations: int = threshold(
        2, unit="evaluations that ignore the weights", source="chosen by hand: it is certain"
    )
    copies: int = threshold(
        3, unit="evaluations of a copy", source="chosen by hand: weights are compared, not losses"
    )
    copy_steps: int = threshold(
        20, unit="optimizer steps", source="chosen by hand: a copy may be updated every few steps"
    )
    target_looks: int = threshold(
        4, unit="calls with data that the trained model did not get", source="chosen by hand"
    )
    target_steps: int = threshold(
        300, unit="optimizer steps", source="chosen by hand: many copies are updated more often"
    )
    many_target_steps: int = threshold(
        4000,
        unit="optimizer steps",
        source="Mnih et al. 2015 copy the network every 10,000 frames (2,500 steps)",
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare the losses of each line that evaluates."""
        copied = (
            self._unused_weights(window)
            or self._unchanged_copy(window)
            or self._unchanged_target(window)
        )
        if copied is not None:
            return [copied]
        every = evaluated(window)
        long = [one for one in every if one.last.number + 1 >= self.evaluations]
        if not long:
            raise NotEnoughData(
                f"fewer than {self.evaluations} evaluations have run at the same line"
            )
        found = [self._finding(window, one) for one in long if self._is_unchanged(one)]
        return found[:1]

    def _unused_weights(self, window: Window) -> Finding | None:
        """Return a finding about a compiled function that ignores the weights that it gets."""
        seen = [one for one in window.seen(EvaluationPhase) if one.old_weights]
        if len(seen) < self.old_evaluations:
            return None
        last = seen[-1]
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=seen[0].step,
            last_step=last.step,
            count=len(seen),
            message=(
                f"`{last.module}` gets the trained weights, but its result does not depend on "
                f"them in {len(seen)} evaluations (limit {self.old_evaluations}): it uses arrays "
                "of the same shapes that it read when it was compiled"
            ),
            evidence={"evaluations": len(seen), "limit": self.old_evaluations},
            location=last.location,
            fixes=(
                f"Use the weights from the arguments of `{last.module}`, such as `state.params`, "
                "not a variable outside of it.",
            ),
        )

    def _unchanged_copy(self, window: Window) -> Finding | None:
        """Return a finding about an evaluated copy of the model whose weights never change."""
        if any(True for kind in (EvaluationPhase, BootstrappedTargets) for _ in window.seen(kind)):
            return None
        acts = any(call.operation == POLICY_GAIN for call in window.seen(LossCall))
        least = self.target_steps if acts else self.copy_steps
        seen = next((one for one in _by_module(window) if self._is_stale(one, least)), None)
        if seen is None:
            return None
        last = seen[-1]
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=seen[0].step,
            last_step=last.step,
            count=len(seen),
            message=(
                f"{last.module}, a copy of the trained model, "
                f"{'chooses the actions' if acts else 'is evaluated'} and has the same weights in "
                f"all {len(seen)} evaluations from step {seen[0].step} to {last.step}"
            ),
            evidence={"evaluations": len(seen), "limit": self.copies},
            location=last.location,
            fixes=(COPY_POLICY,) if acts else self.fixes(window)[:2],
        )

    def _is_stale(self, seen: list[EvaluatedCopy], steps: int) -> bool:
        many = len(seen) >= self.copies and seen[-1].step - seen[0].step >= steps
        return many and not seen[-1].same and _are_equal(seen)

    def _unchanged_target(self, window: Window) -> Finding | None:
        """Return a finding about a copy whose output is the target, and which never changes."""
        calls = [call for call in window.seen(LossCall) if call.mode is Mode.TRAIN]
        similar = any(one.one for one in window.seen(SimilarityLoss))
        moves = any(True for _ in window.seen(BootstrappedTargets))
        known = calls or similar or moves
        if not known or any(call.operation != "elementwise" for call in calls):
            return None
        for seen in _by_module(window):
            first, last = seen[0], seen[-1]
            steps = last.step - first.step
            makes_targets = similar or (last.apart >= self.target_looks and not last.same)
            if makes_targets and steps >= self.target_steps and _are_equal(seen):
                return self._of_target(window, last, steps, len(seen))
        return None

    def _of_target(self, window: Window, last: EvaluatedCopy, steps: int, looks: int) -> Finding:
        many = steps >= self.many_target_steps
        hint = "" if many else ". Ignore this if you copy the weights less often"
        return self.finding(
            window,
            severity=Severity.WARNING if many else Severity.INFO,
            step=last.step - steps,
            last_step=last.step,
            count=looks,
            message=(
                f"{last.module} computes the targets, and has the same weights in all {looks} "
                f"inspected steps from {last.step - steps} to {last.step}: the target network is "
                f"not updated{hint}"
            ),
            evidence={"steps": steps, "limit": self.target_steps},
            location=last.location,
            fixes=self.fixes(window)[2:],
        )

    def _is_unchanged(self, one: Evaluated) -> bool:
        value, last = float(one.value_E[-1]), one.last
        if not value or last.first != value or last.best != value or (one.value_E != value).any():
            return False
        known_E = one.train_E[np.isfinite(one.train_E)]
        trains = len(known_E) > 1 and bool((known_E != known_E[0]).any())
        return trains and bool((np.diff(one.step_E) >= self.steps).all())

    def _finding(self, window: Window, one: Evaluated) -> Finding:
        count, value = one.last.number + 1, float(one.value_E[-1])
        return self.finding(
            window,
            severity=Severity.WARNING,
            step=int(one.step_E[0]),
            last_step=int(one.step_E[-1]),
            count=count,
            message=(
                f"all {count} evaluations gave exactly the loss {value:.6g}, while the training "
                "loss changed: the evaluated model does not change"
            ),
            evidence={"value": value, "evaluations": count, "site": one.last.site},
            location=one.last.location,
            fixes=self.fixes(window)[:2],
        )


def _by_module(window: Window) -> list[list[EvaluatedCopy]]:
    copies: dict[str, list[EvaluatedCopy]] = {}
    for one in window.seen(EvaluatedCopy):
        copies.setdefault(one.module, []).append(one)
    return list(copies.values())


def _are_equal(seen: list[EvaluatedCopy]) -> bool:
    return len({one.digest for one in seen}) == 1
