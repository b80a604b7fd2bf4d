"""RUN909: weights are restored from a state that was never copied, or that has other names."""

from __future__ import annotations

from mothtrap.core.facts.workers import RestoredNothing, UnmatchedState
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window

OTHER_NAMES = 2
"""Position of the first fix for a state with other names."""


@rule(
    "RUN909",
    needs=[
        Need(facts=(RestoredNothing,), each_step=True),
        Need(facts=(UnmatchedState,), optional=True),
    ],
    explains=("frozen_parameters", "overfit", "overtraining"),
)
def restore_without_effect(window: Window) -> Found | None:
    """Weights are restored from a state that was never copied, or that has other names.

    What it detects:
        A call to `load_state_dict` with a state that `state_dict` returned some steps earlier and
        that still contains the model's own tensors. Also a call with `strict=False` and a state
        whose names hardly match those of the model, for example because of the prefix `module.`.

    Why it matters:
        `state_dict` returns the weights of the model, not a copy. Training changes them in place,
        so the saved state always equals the current weights. Loading it changes nothing: the model
        ends with its last weights, not its best weights. With `strict=False`, PyTorch silently
        skips names that do not match, so the model keeps its initial weights.

    Fires:
        Warning at each model for which this happens. With `strict=False`, when less than a tenth
        of the names match.

    Stays quiet:
        For states that were copied, or written to a file and read. For a state that is loaded
        before another step is taken.

    What to do:
        - PyTorch: Copy the state when you save it: `best = copy.deepcopy(model.state_dict())`.
        - PyTorch: Or save it to a file: `torch.save(model.state_dict(), path)`.
        - Rename the keys of the state before it is loaded: `{k.removeprefix("module."): v for k, v
          in state.items()}`. If the checkpoint contains more than the weights, load only the
          weights, such as `checkpoint["model"]`.
        - Load with `strict=True` (the default), which lists the names that do not match.

    Example:
        best = model.state_dict()                     # changes with the model
        best = copy.deepcopy(model.state_dict())

    References:
        https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html
    """
    every = list(window.seen(RestoredNothing, steps=1))
    if not every:
        unmatched = next(iter(window.seen(UnmatchedState)), None)
        return _unmatched(unmatched) if unmatched is not None else None
    same = [one for one in every if one.module == every[0].module]
    last = same[-1]
    return Found.of(
        same,
        f"the state of {last.module} saved after {last.kept_step} steps was loaded after "
        f"{last.step} steps, but it still refers to the model's own tensors: nothing is restored, "
        "and the model keeps the weights of the last step",
        step=same[0].kept_step,
        count=len(same),
        evidence={"kept_step": last.kept_step, "loaded_step": last.step},
        location=last.taken_at or last.location,
        fixes=tuple(range(OTHER_NAMES)),
    )


def _unmatched(one: UnmatchedState) -> Found:
    loaded = f"only {one.shared}" if one.shared else "none"
    return Found.of(
        one,
        f"`load_state_dict(strict=False)` loaded {loaded} of the {one.names} tensors of "
        f"{one.module}: the state has `{one.other}` where the model has `{one.own}`",
        evidence={"names": one.names, "given": one.given, "shared": one.shared},
        fixes=(OTHER_NAMES, OTHER_NAMES + 1),
    )
