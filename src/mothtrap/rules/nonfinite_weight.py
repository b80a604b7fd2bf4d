"""NUM003: a parameter contains NaN or infinite values."""

from __future__ import annotations

import numpy as np

from mothtrap.core.errors import NotEnoughData
from mothtrap.core.facts.nonfinite import NonfiniteModule
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.proof import Proof
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window
from mothtrap.rules._weights import WEIGHTS

KINDS: tuple[str, ...] = ("weight", "bias")
INITIAL = "not finite from step 0"
"""Words of the fix for a parameter that training did not break."""
LAYERS_NAMED = 10
"""Maximum number of parameters that a finding names."""


@frozen
class NonfiniteWeight(Rule):
    """A parameter contains NaN or infinite values.

    What it detects:
        Weights and biases that are not finite: from the beginning (an initialization divides by 0,
        or memory was never filled), or since an update that was not finite.

    Why it matters:
        The output of the layer is NaN from then on, and the next step spreads it to all other
        weights. Only an earlier checkpoint brings them back.

    Fires:
        Error when a parameter contains NaN, or contains infinite values while the loss is not
        finite either. Warning for infinite values while the loss is finite.

    Stays quiet:
        Finite values, however large. Buffers are not checked.

    What to do:
        - PyTorch: If it is not finite from step 0: check how the parameter is initialized
          (`torch.empty`, a standard deviation of 0, a division by the number of inputs).
        - Keras, JAX: If it is not finite from step 0: check how the parameter is initialized (a
          standard deviation of 0, a division by the number of inputs).
        - If it broke later: find the gradient that was not finite (see NUM002 and NUM004), and go
          back to a checkpoint from before that step.
        - Check values that code writes into weights by hand: normalization, pruning, averaging.

    Example:
        scale = nn.Parameter(torch.empty(64))      # whatever was in memory
        scale = nn.Parameter(torch.ones(64))

    References:
        https://docs.pytorch.org/docs/stable/nn.init.html
    """

    code = "NUM003"
    needs = (
        *WEIGHTS,
        Need(kinds=("gradient",), statistics=("nan", "inf"), optional=True),
        Need(facts=(NonfiniteModule,), scalars=("loss",), optional=True),
        *(
            Need(
                kinds=("bias",),
                statistics=("l2", "nan", "inf"),
                schedule=need.schedule,
                optional=True,
            )
            for need in WEIGHTS
        ),
    )
    proof = Proof(title="Norm of the weights", statistic="weight.l2", joint=True, scale="log")
    explains = (
        "nonfinite_loss",
        "nonfinite_gradient",
        "nonfinite_activation",
        "constant_output",
        "updates_all_skipped",
    )

    def check(self, window: Window) -> list[Finding]:
        """Check the counts of values that are not finite."""
        bad = _bad_parameters(window)
        modules = [m for m in window.seen(NonfiniteModule) if not m.parameters_finite]
        looked = any(window.matrix(kind, "nan") for kind in KINDS)
        if not bad and not modules:
            if not looked:
                raise NotEnoughData("no parameter was inspected")
            return []
        seen = min([step for step, _ in bad.values()] + [m.step for m in modules])
        broken = any(not np.isfinite(s.values_S).all() for s in window.scalars("loss"))
        nan = sum(count for _, count in bad.values()) + sum(m.nan for m in modules)
        severity = Severity.ERROR if nan or broken or modules else Severity.WARNING
        since = _destroyed(window, seen)
        names = [name for name, (step, _) in bad.items() if step == seen][:LAYERS_NAMED]
        names = names or [m.module for m in modules][:LAYERS_NAMED]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        when = "from the beginning" if since == 0 else f"since step {since}"
        looked_before = _latest_look(window, seen)
        if since == seen and looked_before is not None and looked_before + 1 < seen:
            when = f"since a step between {looked_before + 1} and {seen}"
        later = since > 0
        found = self.finding(
            window,
            severity=severity,
            step=since,
            fixes=tuple(fix for fix in self.fixes(window) if not (later and INITIAL in fix)),
            last_step=max(window.last_step, since),
            layers=tuple(names),
            message=f"{names[0]}{more} {'have' if more else 'has'} contained "
            f"{'NaN' if nan else 'infinite values'} {when}",
            evidence={"parameters": len(bad) or len(modules), "seen_at": seen},
            location=_made_at(window, since)
            or _location(window, names[0])
            or next((m.location for m in modules), None),
        )
        return [found]


def _bad_parameters(window: Window) -> dict[str, tuple[int, int]]:
    """Return the first bad step and the NaN count of each parameter that is not finite."""
    found: dict[str, tuple[int, int]] = {}
    for kind in KINDS:
        nan, inf = window.matrix(kind, "nan"), window.matrix(kind, "inf")
        if nan is None or inf is None:
            continue
        bad_ST = np.nan_to_num(nan.values_ST) + np.nan_to_num(inf.values_ST) > 0
        for column in np.flatnonzero(bad_ST.any(axis=0)).tolist():
            row = int(np.argmax(bad_ST[:, column]))
            found[nan.tensors[column].name] = (
                int(nan.steps_S[row]),
                int(np.nan_to_num(nan.values_ST[row, column])),
            )
    return found


def _latest_look(window: Window, seen: int) -> int | None:
    """Return the latest step before `seen` at which parameters were inspected; None without one."""
    matrices = [m for kind in KINDS if (m := window.matrix(kind, "nan")) is not None]
    return max((int(s) for m in matrices for s in m.steps_S[m.steps_S < seen]), default=None)


def _destroyed(window: Window, seen: int) -> int:
    """Return the first step with bad weights, which may precede the sampled step."""
    nan, inf = window.matrix("gradient", "nan"), window.matrix("gradient", "inf")
    if nan is None or inf is None:
        return seen
    bad_ST = np.nan_to_num(nan.values_ST) + np.nan_to_num(inf.values_ST) > 0
    applied = nan.steps_S[bad_ST.any(axis=1) & ~nan.skipped_S & (nan.steps_S < seen)]
    return int(applied[0]) + 1 if len(applied) else seen


def _made_at(window: Window, since: int) -> str | None:
    """Return the line of the loss whose step destroyed the weights, if a step did."""
    if not since:
        return None
    return next((s.location for s in window.scalars("loss") if s.location), None)


def _location(window: Window, name: str) -> str | None:
    for kind in KINDS:
        matrix = window.matrix(kind, "nan")
        for tensor in matrix.tensors if matrix else ():
            if tensor.name == name:
                return tensor.location
    return None
