"""STR727: a teacher runs in training mode."""

from __future__ import annotations

from mothtrap.core.facts.evaluations import TeacherMode
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule(
    "STR727",
    title="teacher in training mode",
    needs=[Need(facts=(TeacherMode,))],
    explains=("loss_not_decreasing", "loss_oscillating", "metric_contradicts_loss"),
)
def teacher_in_training_mode(
    window: Window,
    *,
    steps: int = threshold(8, unit="steps", source="chosen by hand: the mode rarely changes"),
) -> Found | None:
    """A teacher runs in training mode.

    What it detects:
        A model that no optimizer holds, or that is frozen. It receives the data of the trained
        model in each step, and is in training mode, although it has dropout or batch norms.

    Why it matters:
        Dropout switches off units of the teacher at random, so the student learns answers that the
        teacher would never give. Batch norms normalize by the batch, and change their averages with
        each step.

    Fires:
        Warning if dropout is active in each of the first `steps` inspected steps. Info if only
        batch norms are.

    Stays quiet:
        Copies of the trained model, such as a target network or the mean teacher, because noise is
        intended there. Models whose forward passes get other data.

    What to do:
        - Call `teacher.eval()` once before training.
        - If the teacher is a part of another module, `train()` of this module also changes the
          teacher: call `teacher.eval()` after it.

    Example:
        student.train(); teacher.train()
        student.train(); teacher.eval()

    References:
        Hinton et al. 2015, Distilling the knowledge in a neural network,
        https://arxiv.org/abs/1503.02531
    """
    for one in window.seen(TeacherMode, steps=steps):
        if one.steps < steps:
            continue
        active = [
            f"{kind} ({', '.join(paths[:3])})"
            for kind, paths in (("dropout", one.dropouts), ("batch norm", one.norms))
            if paths
        ]
        return Found.of(
            one,
            f"{one.module_type} is not trained, gets the data of the trained model, and ran in "
            f"training mode in {one.steps} of {one.steps} inspected steps (limit {steps}): "
            f"{' and '.join(active)} active",
            severity="warning" if one.dropouts else "info",
            step=max(0, one.step - one.steps + 1),
            last_step=window.last_step,
            count=one.steps,
            layers=(one.module, *one.dropouts, *one.norms),
            evidence={
                "steps": one.steps,
                "limit": steps,
                "dropouts": list(one.dropouts),
                "norms": list(one.norms),
            },
        )
    return None
