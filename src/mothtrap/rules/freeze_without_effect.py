"""OPT621: parameters that the script tries to freeze are still trained."""

from __future__ import annotations

from mothtrap.core.facts.modules import FreezeWithoutEffect
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window

LAYERS_NAMED = 10


@rule("OPT621", title="freezing without effect", needs=[Need(facts=(FreezeWithoutEffect,))])
def freeze_without_effect(window: Window) -> Found | None:
    """Parameters that the script tries to freeze are still trained.

    What it detects:
        Parameters with a misspelled attribute, such as `require_grad = False`. Also modules whose
        attribute `requires_grad` was set to False. Neither freezes anything: Python creates a new
        attribute, which PyTorch does not read.

    Why it matters:
        The pretrained layers should keep their weights, but every step changes them. The large
        gradients of a new head destroy what they have learned.

    Fires:
        Warning when such parameters require a gradient, and an optimizer holds them.

    Stays quiet:
        Parameters that are frozen in another way, or that are in no optimizer. Attributes with
        other values than False.

    What to do:
        - PyTorch: Set `requires_grad` of each parameter: `for p in model.parameters():
          p.requires_grad = False`.
        - PyTorch: Call `module.requires_grad_(False)` to freeze all parameters of a module.

    Example:
        for p in encoder.parameters(): p.require_grad = False       # a new attribute
        encoder.requires_grad = False                               # a new attribute
        encoder.requires_grad_(False)

    References:
        https://docs.pytorch.org/docs/stable/notes/autograd.html#setting-requires-grad
    """
    every = list(window.seen(FreezeWithoutEffect, steps=1))
    if not every:
        return None
    one = max(every, key=lambda seen: seen.elements)
    if one.of_module:
        message = (
            f"`{one.attribute} = False` was set on the module {one.holders[0]}, which only creates "
            f"an attribute: its {one.parameters} parameters are still trained"
        )
    else:
        what = f"{one.parameters} parameters" if one.parameters > 1 else "a parameter"
        message = (
            f"`{one.attribute} = False` was set on {what}, but PyTorch only reads "
            "`requires_grad`: nothing is frozen"
        )
    return Found.of(
        one,
        message,
        step=0,
        last_step=one.step,
        layers=one.holders[:LAYERS_NAMED],
        evidence={
            "attribute": one.attribute,
            "parameters": one.parameters,
            "elements": one.elements,
        },
        fixes=(1, 0) if one.of_module else (0, 1),
    )
