"""Rules generated from a curve: a limit, a number of steps, and the file of the rule."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Literal

import msgspec

from mothtrap.core.errors import ConfigError, OutputExistsError
from mothtrap.core.findings import Finding
from mothtrap.core.quiet import Quiet
from mothtrap.core.rule import Rule
from mothtrap.core.rule_form import CODE
from mothtrap.monitor.afterwards import judge_again
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.monitor.rule_files import read_rules
from mothtrap.reader.run import Run
from mothtrap.statistics.summary import STATISTICS

FAMILY = "OWN"
HEADER = '''"""Your own rules: `mothtrap run --rules FILE` evaluates them."""

import mothtrap
'''
_SCALAR = '''

@mothtrap.rule({code!r}, severity={severity!r}, needs=[mothtrap.Need(scalars=({name!r},))])
def {function}(window: mothtrap.Window, *, limit: float = {limit!r}, for_steps: int = {for_steps}):
    """A recorded number is {side} a limit.

    What to do:
        - Look at the step: `mothtrap replay RUN --step STEP`.
    """
    for series in window.scalars({name!r}):
        held = []
        for step, value in zip(series.steps_S, series.values_S, strict=True):
            held = [*held, int(step)] if value {sign} limit else []
            if len(held) == for_steps:
                yield mothtrap.Found(
                    step=held[0],
                    message=f"{words} is {{value:.4g}}, {side} {{limit:g}} for {{for_steps}} steps",
                    evidence={{"value": float(value), "limit": limit}},
                    count=for_steps,
                    last_step=int(step),
                )
                break
'''
_STATISTIC = '''

@mothtrap.rule(
    {code!r},
    severity={severity!r},
    needs=[
        mothtrap.Need(kinds=({kind!r},), statistics=({statistic!r},), tensors=({tensors!r},))
    ],
)
def {function}(window: mothtrap.Window, *, limit: float = {limit!r}, for_steps: int = {for_steps}):
    """A statistic of a tensor is {side} a limit.

    What to do:
        - Look at the step: `mothtrap replay RUN --step STEP`.
    """
    matrix = window.matrix({kind!r}, {statistic!r})
    if matrix is None:
        raise mothtrap.NotEnoughData("it was not captured")
    for place, tensor in enumerate(matrix.tensors):
        if tensor.name != {name!r}:
            continue
        held = []
        for step, value in zip(matrix.steps_S, matrix.values_ST[:, place], strict=True):
            held = [*held, int(step)] if value {sign} limit else []
            if len(held) == for_steps:
                yield mothtrap.Found(
                    step=held[0],
                    message=f"{words} is {{value:.4g}}, {side} {{limit:g}} for {{for_steps}} steps",
                    layers=(tensor.name,),
                    evidence={{"value": float(value), "limit": limit}},
                    count=for_steps,
                    last_step=int(step),
                )
                break
'''


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A curve that is above or below a limit for a number of captured steps.

    `what` is the name of a scalar, such as `loss`, or of a tensor such as `gradient:head.weight`
    with its `statistic`. If `code` is "", `next_code` chooses one.
    """

    what: str
    side: Literal["above", "below"]
    limit: float
    for_steps: int = 1
    statistic: str = ""
    severity: Literal["error", "warning", "info"] = "warning"
    code: str = ""


class MadeRule(msgspec.Struct, frozen=True, kw_only=True):
    """A generated rule: its code, name, and source, and its findings in the run."""

    code: str
    name: str
    source: str
    findings: tuple[Finding, ...] = ()


def next_code(files: tuple[str, ...] = ()) -> str:
    """Return an unused rule code; `files` contain further rules."""
    taken = {rule.code for rule in rule_classes(files)}
    numbers = (f"{FAMILY}{number}" for number in range(901, 1000))
    return next(code for code in numbers if code not in taken)


def rule_source(condition: Condition) -> tuple[str, str]:
    """Return the name and source of a rule for a condition.

    Raises:
        ConfigError: the condition cannot be made into a rule.
    """
    _check(condition)
    kind, colon, tensor = condition.what.partition(":")
    name = tensor if colon else condition.what
    limit = f"{condition.limit:g}".replace("+", "").replace("-", "minus_").replace(".", "p")
    parts = [condition.what, condition.statistic, condition.side, limit]
    function = re.sub(r"[^a-z0-9]+", "_", "_".join(filter(None, parts)).lower()).strip("_")
    function = function if function[:1].isalpha() else f"rule_{function}"
    words = f"{condition.statistic} of {condition.what}" if colon else condition.what
    source = (_STATISTIC if colon else _SCALAR).format(
        code=condition.code,
        severity=condition.severity,
        function=function,
        name=name,
        kind=kind,
        statistic=condition.statistic,
        tensors=re.sub(r"([*?\[])", r"[\1]", name),
        limit=float(condition.limit),
        for_steps=condition.for_steps,
        side=condition.side,
        sign=">" if condition.side == "above" else "<",
        words=re.sub(r"[^\w .:/-]", "?", words),
    )
    ast.parse(source)
    return function, source


def make_rule(
    run: Run, condition: Condition, file: Path, *, further: tuple[str, ...] = ()
) -> MadeRule:
    """Write a rule for a condition to a file; return where it would have fired in a run.

    Args:
        run: run in which the rule is tried; data that the run did not capture cannot be evaluated.
        condition: condition of the rule.
        file: file of rules; if it exists, the rule is added.
        further: files with other rules; their codes are already taken.

    Raises:
        ConfigError: the condition or the file cannot be used.
        OutputExistsError: the file already has a rule of that name.
        OSError: the file cannot be written.
    """
    known = tuple(str(path) for path in {*map(Path, further), file} if Path(path).exists())
    if not condition.code:
        condition = msgspec.structs.replace(condition, code=next_code(known))
    name, source = rule_source(condition)
    before = file.read_text(encoding="utf-8") if file.exists() else HEADER
    if re.search(rf"^def {name}\b", before, re.MULTILINE):
        raise OutputExistsError(f"{file} already has a rule {name}; change it there")
    file.write_text(before.rstrip("\n") + "\n" + source, encoding="utf-8")
    try:
        rules = [rule() for rule in _usable(file) if rule.code == condition.code]
    except ConfigError:
        file.write_text(before, encoding="utf-8")
        raise
    judged = judge_again(run, rules, Quiet())
    return MadeRule(
        code=condition.code, name=name, source=source.strip() + "\n", findings=judged.findings
    )


def _usable(file: Path) -> tuple[type[Rule], ...]:
    """Return the rules of a file; ConfigError if one of the files cannot be used."""
    rules, faults = read_rules(file)
    if faults:
        raise ConfigError(str(faults[0]))
    return rules


def _check(condition: Condition) -> None:
    if not CODE.fullmatch(condition.code):
        raise ConfigError(f"a code is capital letters and three digits, not {condition.code!r}")
    if condition.for_steps < 1:
        raise ConfigError(f"for_steps must be 1 step or more, not {condition.for_steps}")
    if not abs(condition.limit) < float("inf"):
        raise ConfigError(f"the limit must be a number, not {condition.limit}")
    if not condition.what.strip() or not condition.what.isprintable():
        raise ConfigError(f"{condition.what!r} is not the name of a scalar or a tensor")
    if ":" in condition.what and condition.statistic not in STATISTICS:
        raise ConfigError(
            f"a condition on a tensor needs a statistic: {', '.join(STATISTICS)}; "
            f"got {condition.statistic!r}"
        )
