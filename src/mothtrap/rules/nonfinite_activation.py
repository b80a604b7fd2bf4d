"""NUM004: the first module whose output is not finite while its inputs were."""

from __future__ import annotations

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.nonfinite import FirstBadOperation, NonfiniteModule
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.operation_advice import advice_on
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.window import Window
from mothtrap.rules._operation_advice import (
    REPLAY_NAMES_IT,
    operation_at,
    operation_in_words,
)

BEFORE_CALL = (
    "Check the code just before this module is called, between modules; "
    "`mothtrap replay RUN` names the operation and its line."
)


@frozen
class NonfiniteActivation(Rule):
    """A module turned finite inputs into NaN or infinite outputs.

    What it detects:
        In a step whose loss or applied gradient is not finite: the first module in execution order
        whose output is not finite although its inputs and parameters are. If that module cannot
        produce NaN itself (a linear layer, for example), an operation between modules passed NaN to
        it.

    Why it matters:
        The fault originates here. Everything after this module only passes it on.

    Fires:
        Error at the first step with such a module. The rule inspects modules only when the loss or
        an applied gradient is not finite, so it costs nothing before.

    Stays quiet:
        Infinite values in masks and masked scores, or NaN that marks a gap, as long as loss and
        gradients are finite. Steps that loss scaling skips. Modules whose parameters are not
        finite: an earlier step broke them.

    What to do:
        - Guard the operation in this module: keep the argument of a log or root above 0
          (`softplus`, `exp`; an epsilon helps against 0 only), add an epsilon to the divisor,
          subtract the maximum before exp.
        - Check the module's input in this step for extreme values, and normalize it.
        - Run the module in float32 if it overflows in a smaller type (the largest fp16 number is
          65504).
        - If the module got NaN as input: check the code just before its call, between modules;
          `mothtrap replay RUN` names the operation and its line.

    Example:
        scores = x / x.norm(dim=-1, keepdim=True)            # 0/0 for a row of zeros
        scores = F.normalize(x, dim=-1)                      # safe

    References:
        Micikevicius et al. 2018, Mixed precision training, https://arxiv.org/abs/1710.03740
    """

    code = "NUM004"
    needs = (
        Need(facts=(NonfiniteModule,), each_step=True),
        Need(facts=(FirstBadOperation,), optional=True),
    )
    explains = (
        "nonfinite_loss",
        "nonfinite_gradient",
        "loss_diverging",
        "nonfinite_weight",
        "updates_all_skipped",
    )

    def check(self, window: Window) -> list[Finding]:
        """Find the first module that broke although its inputs were finite."""
        if not window.total_steps:
            raise NotEnoughData("no step was recorded")
        skipped = set(window.steps_S[window.skipped_S].tolist())
        broken = [
            seen
            for seen in window.seen(NonfiniteModule)
            if seen.parameters_finite and seen.step not in skipped and seen.mode is Mode.TRAIN
        ]
        if not broken:
            return []
        first = min(broken, key=lambda seen: seen.step)
        operation = _operation(window, first)
        sure = first.inputs_known and first.nan and not first.given
        return [
            self.finding(
                window,
                severity=Severity.ERROR,
                step=first.step,
                last_step=max(seen.step for seen in broken),
                count=len({seen.step for seen in broken}),
                layers=(first.module,),
                message=_in_words(first, operation),
                evidence={
                    "nan": first.nan,
                    "inf": first.inf,
                    "module_type": first.module_type,
                    "inputs_known": first.inputs_known,
                    "given": first.given,
                },
                location=_place(first, operation),
                confidence="high" if sure else "medium",
                fixes=self._fixes(window, first, operation),
            )
        ]

    def _fixes(
        self, window: Window, first: NonfiniteModule, operation: FirstBadOperation | None
    ) -> tuple[str, ...]:
        advice = advice_on(operation) if operation is not None else ""
        if advice:
            return (advice,)
        if _was_given(first):
            return (BEFORE_CALL,)
        fixes = self.fixes(window)[:-1]
        return fixes if operation is not None else (REPLAY_NAMES_IT, *fixes)


def _operation(window: Window, first: NonfiniteModule) -> FirstBadOperation | None:
    """Return the operation that made a module's output bad, where that is known."""
    found = operation_at(window, first.step)
    if found is None or not found.module:
        return found  # its line and its values were found in the source
    ran, broke = f"{found.module}.", f"{first.module}."
    inside = ran.startswith(broke) or broke.startswith(ran)
    return found if inside or _is_root(found.module) else None


def _is_root(module: str) -> bool:
    """Return whether a path is the class name of a model."""
    return "." not in module and module[:1].isupper()


def _place(first: NonfiniteModule, operation: FirstBadOperation | None) -> str | None:
    """Return the line of the operation, else the line of the module."""
    return (operation.location if operation is not None else None) or first.location


def _was_given(first: NonfiniteModule) -> bool:
    return first.given and first.inputs_known


def _in_words(first: NonfiniteModule, operation: FirstBadOperation | None) -> str:
    name = f"{first.module or 'the model'} ({first.module_type})"
    if operation is not None and (_was_given(first) or not operation.module):
        part = "input" if _was_given(first) else "output"
        return f"the {part} of {name} is not finite; {operation_in_words(operation)}"
    if _was_given(first):
        return (
            f"the input of {name} contains NaN that no module produced: "
            "an operation between modules did"
        )
    counts = ((first.nan, "NaN"), (first.inf, "infinite"))
    what = " and ".join(f"{count} {word}" for count, word in counts if count)
    values = "value" if first.nan + first.inf == 1 else "values"
    origin = "from finite inputs" if first.inputs_known else "(its inputs were not available)"
    given = f" ({', '.join(operation.inputs)})" if operation and operation.inputs else ""
    made = f", in {operation.operation}{given}" if operation is not None else ""
    return f"{name} returned {what} {values} {origin}{made}"
