"""Check a script before its training run."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mothtrap.core.asked_samples import Asked, PersonScore
from mothtrap.core.check_plan import ASKED, CHECK_VARIABLE, CheckPlan, Part
from mothtrap.core.config import Config
from mothtrap.core.jsonable import decode
from mothtrap.core.runs import RunKind
from mothtrap.monitor.catalogue import rule_classes
from mothtrap.session.launch import launch
from mothtrap.session.triggers import triggers
from mothtrap.store.person_scores import put_score

DEADLINE = ("PRE205", "most_hours")
"""The rule that limits the duration of the whole run, and its threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Options of a check.

    Attributes:
        steps: number of steps of the script to observe.
        budget_s: time limit for the whole check, in seconds.
        restarts: trials start the script again instead of copying its process.
        network: the script may connect to other machines.
        dummy_loss: replace the loss with the mean square of the model's output.
        cut: layer at which the network ends; empty = no cut.
        part: the only part to check; None = all.
        asks: number of samples that a person should predict; 0 = none.
        deadline_h: limit on the duration of the whole run, in hours; None = the limit of the rule.
        learns: learn layers and inputs for a file of invariants.
        resume_command: starts the script from its checkpoint; empty = do not check this.
        name: name of the run; None = script and time.
        report: file to which a report is written.
    """

    steps: int = 10
    budget_s: float = 120.0
    restarts: bool = False
    network: bool = False
    dummy_loss: bool = False
    cut: str = ""
    part: Part | None = None
    resume_command: str = ""
    asks: int = 0
    deadline_h: float | None = None
    learns: bool = False
    name: str | None = None
    report: str | None = None


def check(
    command: Sequence[str],
    config: Config,
    options: CheckOptions,
    *,
    warnings: Sequence[str] = (),
    descriptors: Sequence[int] = (),
    afterwards: Callable[[Path], None] = lambda _: None,
    ask: Callable[[Asked], PersonScore | None] = lambda _: None,
) -> int:
    """Run the first steps of a script, run the checks, and record both as a run.

    Args:
        command: program and arguments.
        config: settings.
        options: options of the check.
        warnings: lines to print first.
        descriptors: descriptors that the command inherits.
        afterwards: called with the folder of the run.
        ask: shows samples to a person, and returns the score of the answers.

    Returns:
        The exit code of the script: 0 unless the script failed before it was checked.
    """
    began_s = time.time()
    with tempfile.TemporaryDirectory(prefix="mothtrap-check-") as scratch:

        def variables(attempt: Path) -> dict[str, str]:
            plan = CheckPlan(
                steps=options.steps,
                budget_s=options.budget_s,
                scratch=scratch,
                kept=(str(attempt.parent.absolute()),),
                network=options.network,
                restarts=options.restarts,
                dummy_loss=options.dummy_loss or bool(options.cut) or options.part == "model",
                part=options.part,
                asks=options.asks,
                learns=options.learns,
                resume_command=options.resume_command,
                cut=options.cut,
                began_s=began_s,
            )
            file = Path(scratch) / "plan.json"
            file.write_bytes(msgspec.json.encode(plan))
            frameworks = ",".join(triggers(tables=True))
            return {CHECK_VARIABLE: str(file), "MOTHTRAP_FRAMEWORKS": frameworks}

        def ended(run: Path) -> None:
            afterwards(run)
            samples = Path(scratch) / ASKED
            score = ask(decode(samples.read_bytes(), Asked)) if samples.exists() else None
            if score is not None:
                put_score(run, score)

        return launch(
            command,
            config=_with_few_steps(config, options),
            name=options.name,
            warnings=warnings,
            report=options.report,
            after_verdict=ended,
            descriptors=descriptors,
            kind=RunKind.CHECK,
            variables=variables,
        )


def _with_few_steps(config: Config, options: CheckOptions) -> Config:
    """Return settings whose rules need only the observed steps, and include the deadline.

    In a long run, rules that count the steps with an observation wait for more of them.
    """
    steps = options.steps
    rules = {name: dict(given) for name, given in config.rules.items()}
    for rule in rule_classes():
        for field in dataclasses.fields(rule):  # type: ignore[arg-type]
            needed = field.default if field.name == "reached_steps" else 0
            if isinstance(needed, int) and needed >= steps:
                rules.setdefault(rule.code, {}).setdefault(field.name, max(1, steps // 2))
    if options.deadline_h is not None:
        rules.setdefault(DEADLINE[0], {})[DEADLINE[1]] = options.deadline_h
    return msgspec.structs.replace(config, rules=rules)
