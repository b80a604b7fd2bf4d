"""STR708: a module of the model is never trained."""

from __future__ import annotations

from mothtrap.core.facts.modules import HiddenParameters, UnreachedModule
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._onset import counted_from
from mothtrap.rules._reach import newest_modules

LAYERS_NAMED = 10
"""Maximum number of layers that a finding names."""


@rule(
    "STR708",
    needs=[Need(facts=(UnreachedModule, HiddenParameters))],
    explains=(
        "constant_output",
        "learning_rate_too_low",
        "loss_not_decreasing",
        "parameter_without_optimizer",
        "stuck_at_chance",
    ),
)
def unused_module(
    window: Window,
    *,
    reached_steps: int = threshold(
        20,
        unit="steps in which a hidden parameter got a non-zero gradient",
        source="chosen by hand: a script that updates it by hand has done so by then",
    ),
    uncalled_steps: int = threshold(100, unit="steps of the optimizer", source="chosen by hand"),
    uncalled_share: float = threshold(
        0.1, unit="of the optimizer's parameters, in elements", source="chosen by hand"
    ),
) -> Found | None:
    """A module of the model is never trained.

    What it detects:
        Modules or parameters that a module keeps in a plain list, tuple or dictionary, where
        `model.parameters()` does not find them: they get gradients, but no optimizer holds them.
        And the reverse: modules that the optimizer holds and that are never called.

    Why it matters:
        Modules in a plain list keep their random initial values, are not moved by `.to(device)`,
        and are missing from every checkpoint. Modules that are never called do nothing, so the
        forward pass differs from the intended one.

    Fires:
        Error when hidden parameters got nonzero gradients in `reached_steps` steps and no code
        changes them. Info when a registered module was not called in `uncalled_steps` steps of its
        optimizer; a warning when these modules hold more than `uncalled_share` of the optimizer's
        parameters.

    Stays quiet:
        Hidden modules without gradients, such as a teacher. Hidden parameters that the script
        passes to an optimizer. Modules whose parameters are used without calling the module.
        Modules whose calls cannot be observed, such as compiled ones. A layer that
        `nn.TransformerEncoder` or `nn.TransformerDecoder` has copied.

    What to do:
        - PyTorch: Keep modules in an `nn.ModuleList` or `nn.ModuleDict` and parameters in an
          `nn.ParameterList`, before the optimizer is created.
        - Call the module in `forward`, or remove it.

    Example:
        self.layers = [nn.Linear(64, 64) for _ in range(3)]     # hidden from parameters()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html
    """
    newest = window.latest(HiddenParameters, by="holder", steps=reached_steps)
    hidden = [seen for seen in newest if seen.reached_steps >= reached_steps and not seen.changed]
    if hidden:
        return _hidden(hidden, reached_steps)
    uncalled = [
        seen
        for seen in newest_modules(window)
        if seen.own_steps >= uncalled_steps
        and seen.calls_are_seen
        and not (seen.runs or seen.runs_in_evaluation or seen.changed)
    ]
    return _uncalled(uncalled, uncalled_share) if uncalled else None


def _hidden(hidden: list[HiddenParameters], limit: int) -> Found:
    first = hidden[0]
    return Found.of(
        hidden,
        f"{first.holder} is a {first.what}: model.parameters() does not include its "
        f"{first.parameters} parameters, no optimizer holds them, and they keep their initial "
        f"values although they got a gradient in all {first.reached_steps} sampled steps",
        title="unregistered module",
        severity="error",
        step=min(counted_from(seen.step, seen.reached_steps, seen.since) for seen in hidden),
        last_step=max(seen.step for seen in hidden),
        count=max(seen.reached_steps for seen in hidden),
        layers=tuple(seen.holder for seen in hidden[:LAYERS_NAMED]),
        evidence={
            "elements": sum(seen.elements for seen in hidden),
            "reached_steps": first.reached_steps,
            "limit": limit,
        },
        location=next((seen.location for seen in hidden if seen.location), None),
    )


def _uncalled(uncalled: list[UnreachedModule], limit: float) -> Found:
    share = sum(seen.share for seen in uncalled)
    steps = max(seen.own_steps for seen in uncalled)
    names = ", ".join(seen.module for seen in uncalled[:3])
    return Found.of(
        uncalled,
        f"{names} {'were' if len(uncalled) > 1 else 'was'} never called in {steps} steps: "
        f"{100 * share:.2g} % of the optimizer's parameters",
        severity="warning" if share > limit else "info",
        step=min(counted_from(seen.step, seen.own_steps, seen.since) for seen in uncalled),
        last_step=max(seen.step for seen in uncalled),
        count=steps,
        layers=tuple(seen.module for seen in uncalled[:LAYERS_NAMED]),
        evidence={"share": share, "limit": limit, "own_steps": steps},
        fixes=("Call the module in `forward`, or remove it.",),
        location=next((seen.location for seen in uncalled if seen.location), None),
    )
