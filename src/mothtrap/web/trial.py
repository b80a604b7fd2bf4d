"""Trial of a rule with a limit on a curve: where it would have fired, and its source text.

The page writes no file: a rule is Python code, and only the user may add code to a training run.
"""

from __future__ import annotations

import re
import shlex

import msgspec
import numpy as np

from mothtrap.core.errors import ConfigError
from mothtrap.core.masking import arguments_without_secrets
from mothtrap.core.steps import Mode
from mothtrap.core.window import Bools, Floats, Ints
from mothtrap.monitor.rule_making import Condition, next_code, rule_source
from mothtrap.reader.run import Run
from mothtrap.web.opened import OpenRun
from mothtrap.web.series import every_row, scalar_names, tensor_parts

MOST_FIRINGS = 100
FILE = "my_rules.py"


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive steps at which a curve was beyond the limit, with the last value."""

    curve: str
    step: int
    last_step: int
    count: int
    value: float


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The firings, the number of captured values, the rule's source and the commands."""

    firings: list[Firing]
    values: int
    more: int
    name: str
    source: str
    write: str
    use: str


def trial(opened: OpenRun, curve: str, *, side: str, limit: str, for_steps: int) -> Trial:
    """Return where a rule would have fired in a run.

    Args:
        opened: the run.
        curve: name of a training curve, see `web.series`.
        side: `above` or `below`.
        limit: a number.
        for_steps: captured steps in a row.

    Raises:
        UnknownNameError: there is no such curve.
        ConfigError: it is not a valid condition, or the run is too large to read every step.
    """
    run = opened.run
    condition, curves = _condition(run, curve, side, limit, for_steps)
    firings: list[Firing] = []
    values = 0
    for name in curves:
        step_N, value_N = every_row(opened, name)
        values += len(step_N)
        beyond_N = value_N > condition.limit if side == "above" else value_N < condition.limit
        firings += _firings(name, step_N, value_N, beyond_N, for_steps)
    firings.sort(key=lambda firing: (firing.step, firing.curve))
    name, source = rule_source(condition)
    words = ["mothtrap", "condition", opened.summary.called or run.id, condition.what]
    words += ["--statistic", condition.statistic] if condition.statistic else []
    words += [f"--{side}", f"{condition.limit:g}", "--for-steps", str(for_steps), "-o", FILE]
    return Trial(
        firings=firings[:MOST_FIRINGS],
        values=values,
        more=max(0, len(firings) - MOST_FIRINGS),
        name=name,
        source=f"import mothtrap\n\n\n{source.strip()}\n",
        write=shlex.join(words),
        use=_use(run),
    )


def _condition(
    run: Run, curve: str, side: str, limit: str, for_steps: int
) -> tuple[Condition, list[str]]:
    """The condition, and the curves of its rule: all series with a scalar's name."""
    if side not in ("above", "below"):
        raise ConfigError(f"a limit is `above` or `below`, not {side[:40]!r}")
    try:
        number = float(limit)
    except ValueError as err:
        raise ConfigError(f"the limit must be a number, not {limit[:40]!r}") from err
    scalars, what, statistic = scalar_names(run), "", ""
    if curve in scalars:
        what, _, mode = scalars[curve]
        curves = [name for name, scalar in scalars.items() if scalar[::2] == (what, mode)]
    else:
        mode, kind, statistic, tensor = tensor_parts(run, curve)
        what, curves = f"{kind}:{tensor}", [curve]
    if mode != Mode.TRAIN:
        raise ConfigError(
            f"rules of this form evaluate training steps; {curve} has {mode.value} steps"
        )
    condition = Condition(
        what=what,
        statistic=statistic,
        side="above" if side == "above" else "below",
        limit=number,
        for_steps=for_steps,
        code=next_code(),
    )
    return condition, curves


def _firings(
    curve: str, step_N: Ints, value_N: Floats, beyond_N: Bools, for_steps: int
) -> list[Firing]:
    edge_M = np.flatnonzero(np.diff(np.concatenate([[0], beyond_N.astype(np.int8), [0]])))
    begin_M, end_M = edge_M[::2], edge_M[1::2]
    long_M = end_M - begin_M >= for_steps
    return [
        Firing(
            curve=curve,
            step=int(step_N[begin]),
            last_step=int(step_N[end - 1]),
            count=int(end - begin),
            value=float(value_N[end - 1]),
        )
        for begin, end in zip(begin_M[long_M], end_M[long_M], strict=True)
    ]


def _use(run: Run) -> str:
    words = list(arguments_without_secrets(run.info.command)) if run.info else []
    if words and re.fullmatch(r"(.*/)?python[\d.]*(\.exe)?", words[0]):
        words = words[1:]
    return shlex.join(["mothtrap", "run", "--rules", FILE, *(words or ["train.py"])])
