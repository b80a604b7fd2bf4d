"""STR701: a loss that applies softmax itself gets probabilities."""

from __future__ import annotations

from collections import defaultdict

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.losses import LossCall
from mothtrap.core.findings import Severity
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window
from mothtrap.rules._effects import UNLEARNED
from mothtrap.rules._loss_calls import chosen_at, fixes_of_raw_loss, made_at

CLASS_LOSSES = ("cross_entropy", "nll", "kl_div")
OF_LOG_PROBABILITIES = ("nll", "kl_div")
"""Losses that expect log-probabilities, and do not apply a softmax themselves."""
WHY_NLL = (
    "`nll_loss` expects log-probabilities. With probabilities, the loss lies between -1 "
    "and 0, and its gradient does not grow when the model is wrong, so confident mistakes stay."
)
TRANSPARENT = ("view", "cast", "expand")
"""Operations that change no value."""
WHY_KL = (
    "`kl_div` expects log-probabilities as its first argument. With probabilities, its value is "
    "not a divergence: it can be negative, and its minimum is not at the target distribution."
)
LOGARITHM_FOR_KL = (
    "Give `kl_div` log-probabilities: `F.kl_div(scores.log_softmax(-1), target, "
    'reduction="batchmean")`.'
)

REMOVE, LOGARITHM, EVALUATION = (0, 1, 2), (3, 4), 5
"""Positions of the bullets of `What to do`."""

WHYS = {"nll": WHY_NLL, "kl_div": WHY_KL}


@rule(
    "STR701",
    needs=[Need(facts=(LossCall,))],
    explains=(*UNLEARNED, "learning_rate_too_low", "overtraining"),
)
def softmax_before_cross_entropy(
    window: Window,
    *,
    calls: int = threshold(
        2,
        unit="calls from one line with probabilities as rows",
        source="chosen by hand: one batch may lie on the simplex by chance",
    ),
) -> Found | None:
    """A loss that expects logits or log-probabilities gets probabilities.

    What it detects:
        The output of a softmax goes into cross-entropy, which applies log-softmax itself. Or
        probabilities go into a negative log-likelihood loss or a Kullback-Leibler divergence, which
        expect log-probabilities.

    Why it matters:
        Probabilities lie in 0..1, so after the second softmax no class can get more than e/(e+k-1)
        of k classes. Gradients are tiny, and the loss stays far from 0 even for perfect
        predictions. Training is slow and stops improving early.

    Fires:
        Error when the graph shows a softmax before the loss, with only views and casts in between.
        Without a graph, as in evaluation: error when the rows of the prediction are probabilities
        in `calls` calls from one line. Info for log-softmax twice.

    Stays quiet:
        Log-softmax before cross-entropy is info only: a second log-softmax changes nothing. Soft
        targets, label smoothing and distillation, whose softmax is on the target. A single class.

    What to do:
        - PyTorch: Remove the softmax from the model: pass the logits to `cross_entropy`, and apply
          softmax only where you need probabilities.
        - Keras: Remove `activation="softmax"` from the last layer, or pass `from_logits=False` (the
          default) to the loss.
        - JAX: Remove the softmax from the model: pass the logits to the cross-entropy, and apply
          softmax only where you need probabilities.
        - PyTorch: Use `log_softmax` instead of `softmax` before `nll_loss`, or pass the logits to
          `cross_entropy`.
        - Keras, JAX: If the loss takes the logarithm of probabilities itself, pass it `log_softmax`
          of the logits.
        - In evaluation, pass the logits to the loss, as in training, and the probabilities only to
          metrics.

    Example:
        loss = F.cross_entropy(torch.softmax(model(x), dim=1), y)    # softmax twice
        loss = F.cross_entropy(model(x), y)

    References:
        https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
    """
    every = list(window.seen(LossCall))
    if not every:
        raise NotEnoughData("no loss was traced to its operation")
    known = [call for call in every if call.operation in CLASS_LOSSES and call.classes != 1]
    if not known:
        raise NotApplicable("no class loss was recorded")
    if wired := [call for call in known if _wiring(call) == "softmax"]:
        return _found(wired, Severity.ERROR, "softmax goes into")
    if shown := _by_value(known, calls):
        return _found(shown, Severity.ERROR, "probabilities go into")
    if twice := [call for call in known if _wiring(call) == "log_softmax"]:
        return _found(twice, Severity.INFO, "log-softmax goes into")
    return None


def _by_value(calls: list[LossCall], least: int) -> list[LossCall]:
    """Return `least` calls or more of one line whose predictions are all probabilities."""
    by_line: dict[tuple[str | None, str | None], list[LossCall]] = defaultdict(list)
    for call in calls:
        # If the graph was recorded, it decides, and not the values.
        if call.rows_are_probabilities is not None and not call.chain:
            by_line[call.location, call.series].append(call)
    for same in by_line.values():
        if len(same) >= least and all(call.rows_are_probabilities for call in same):
            return same
    return []


def _found(calls: list[LossCall], severity: Severity, what: str) -> Found:
    calls = sorted(calls, key=lambda call: call.step)
    first = calls[0]
    chain = " <- ".join((first.operation, *first.chain))
    return Found.of(
        calls,
        _message(what, first, severity) + made_at(first, "softmax"),
        severity=severity,
        evidence={
            "operation": first.operation,
            "chain": chain if first.chain else None,
            "classes": first.classes,
            "recognized_by": "operations" if first.chain else "values",
        },
        location=chosen_at(first),
        mode=first.mode.value,
        fixes=_fixes(first),
        why=WHYS.get(first.operation) if severity is Severity.ERROR else None,
    )


def _fixes(call: LossCall) -> tuple[str | int, ...]:
    if raw := fixes_of_raw_loss(call, "softmax"):
        return raw
    if call.operation == "kl_div":
        return (LOGARITHM_FOR_KL,)
    by_loss = (*LOGARITHM, *REMOVE) if call.operation == "nll" else (*REMOVE, *LOGARITHM)
    return (EVALUATION, *by_loss) if call.mode is Mode.EVAL else by_loss


def _message(what: str, call: LossCall, severity: Severity) -> str:
    if severity is Severity.INFO:
        return f"{what} {call.operation}, which applies it itself; redundant but harmless"
    where = " in evaluation" if call.mode is Mode.EVAL else ""
    if call.operation == "kl_div":
        return f"{what} kl_div, which expects log-probabilities (log_softmax)"
    if call.operation == "nll":
        return f"{what} nll_loss{where}, which expects log-probabilities (log_softmax)"
    return f"{what} {call.operation}{where}, which applies softmax itself"


def _wiring(call: LossCall) -> str:
    """Return the (log-)softmax that the loss repeats, or ''."""
    chain = [operation for operation in call.chain if operation not in TRANSPARENT]
    if call.operation in OF_LOG_PROBABILITIES:
        if chain[:1] == ["softmax"]:
            return "softmax"
        if chain[:1] != ["log_softmax"]:
            return ""
        chain = chain[1:]
    return chain[0] if chain and chain[0] in ("softmax", "log_softmax") else ""
