"""Ask a person to predict samples, and compute the score of the answers."""

from __future__ import annotations

import math
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from mothtrap.core.asked_samples import Asked, AskedSample, PersonScore

QUIT = "q"
MAX_CHOICES = 20
"""Classes that a question names; chosen by hand."""


def ask(asked: Asked) -> PersonScore | None:
    """Show each sample, read an answer from standard input, and print the score.

    Returns:
        The score; None without any answer.
    """
    from mothtrap.core.asked_samples import PersonScore

    click.echo(_beginning(asked), err=True)
    answers: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="mothtrap-samples-") as folder:
        for number, sample in enumerate(asked.samples, 1):
            answer = _answered(asked, sample, number, Path(folder))
            if answer is None:
                break
            if answer:
                answers.append((answer, sample.target))
                said = "right" if answer == sample.target else f"it is {sample.target}"
                click.echo(f"  {said} (row {sample.index})", err=True)
    if not answers:
        click.echo("  no sample was answered, so there is no score", err=True)
        return None
    score = _accuracy(answers) if asked.metric == "accuracy" else _r2(answers)
    click.echo(f"  your {asked.metric}: {score:.3f}, {len(answers)} samples", err=True)
    if math.isnan(score):
        return None
    return PersonScore(metric=asked.metric, score=score, samples=len(answers), at_s=time.time())


def _beginning(asked: Asked) -> str:
    if asked.metric == "R2":
        kind = f"a number; they range from {asked.answers[0]} to {asked.answers[1]}"
    else:
        more = ", ..." if len(asked.answers) > MAX_CHOICES else ""
        kind = f"one of {', '.join(asked.answers[:MAX_CHOICES])}{more}"
    data = "evaluation" if asked.role == "evaluation" else "training"
    return (
        f"\n{len(asked.samples)} samples of the {data} data, {asked.dataset}, in random order.\n"
        f"Answer with {kind}. Enter skips a sample, q ends."
    )


def _answered(asked: Asked, sample: AskedSample, number: int, folder: Path) -> str | None:
    """Show a sample, and ask until an answer is possible.

    Returns:
        The answer; empty if the sample is skipped, None if no more are wanted.
    """
    click.echo(f"\nsample {number} of {len(asked.samples)}", err=True)
    if sample.picture:
        file = folder / f"sample-{number}.png"
        file.write_bytes(sample.picture)
        click.echo(f"picture: {file}", err=True)
    click.echo(sample.text, err=True)
    while True:
        click.echo("answer: ", err=True, nl=False)
        line = sys.stdin.readline()
        answer = line.strip()
        if (line and not answer) or _is_possible(asked, answer):
            return answer
        if not line or answer == QUIT:
            return None
        click.echo(f"  {answer!r} is not a possible answer", err=True)


def _is_possible(asked: Asked, answer: str) -> bool:
    if asked.metric == "accuracy":
        return answer in asked.answers
    try:
        return math.isfinite(float(answer))
    except ValueError:
        return False


def _accuracy(answers: list[tuple[str, str]]) -> float:
    return sum(given == right for given, right in answers) / len(answers)


def _r2(answers: list[tuple[str, str]]) -> float:
    """Return R2 as scikit-learn defines it; NaN if all targets are equal."""
    pairs = [(float(given), float(right)) for given, right in answers]
    mean = sum(right for _, right in pairs) / len(pairs)
    spread = sum((right - mean) ** 2 for _, right in pairs)
    return 1 - sum((given - right) ** 2 for given, right in pairs) / spread if spread else math.nan
