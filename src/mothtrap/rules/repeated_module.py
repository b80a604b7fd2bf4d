"""STR735: a list of modules contains one module several times."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.modules import RepeatedModule
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window


@rule("STR735", title="one module repeated", needs=[Need(facts=(RepeatedModule,))])
def repeated_module(
    window: Window,
    *,
    steps: int = threshold(8, unit="steps", source="chosen by hand: the model is searched early"),
) -> Found | None:
    """A list of modules contains one module several times.

    What it detects:
        A `ModuleList` or `Sequential` of a trained model whose entries are the same module, because
        its class creates the module once and multiplies the list: `[Block()] * 4`.

    Why it matters:
        `*` repeats the reference and does not copy the module. The entries share their weights, so
        the model has fewer parameters than intended, and one set of weights must do several tasks.

    Fires:
        Warning after `steps` steps if a container holds a module with trained parameters more than
        once, and its class contains exactly one such line.

    Stays quiet:
        Modules without parameters, such as `[nn.ReLU()] * 3`. A module that is shared in another
        way: stored in a variable first, listed by a comprehension, or called in a loop. Containers
        that are created outside of the class that owns them.

    What to do:
        - PyTorch: Create a module for each entry: `nn.ModuleList([Block() for _ in range(4)])`.
        - If the weights are shared on purpose, store the module once and call it in a loop.

    Example:
        self.blocks = nn.ModuleList([Block(width)] * 4)
        self.blocks = nn.ModuleList([Block(width) for _ in range(4)])

    References:
        https://docs.python.org/3/library/stdtypes.html#common-sequence-operations (note 2)
    """
    every = list(window.seen(RepeatedModule, steps=steps))
    if window.total_steps < steps:
        raise NotEnoughData(f"needs {steps} steps, saw {window.total_steps}")
    if not every:
        return None
    first = every[0]
    return Found.of(
        every,
        f"the {first.copies} entries of {first.container} are one {first.module_type} with "
        f"{first.elements:,} trained parameters: `*` repeats the reference, so they share their "
        "weights",
        step=0,
        count=len(every),
        last_step=window.last_step,
        layers=tuple(one.container for one in every),
        evidence={"copies": first.copies, "elements": first.elements},
    )
