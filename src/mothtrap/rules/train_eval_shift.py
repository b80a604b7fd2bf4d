"""DAT509: the evaluation inputs have a different scale than the training inputs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import InputDistribution
from mothtrap.core.findings import Finding, Severity
from mothtrap.core.frozen import frozen
from mothtrap.core.needs import Need
from mothtrap.core.rule import Rule
from mothtrap.core.steps import Mode
from mothtrap.core.thresholds import threshold
from mothtrap.core.window import Window

SERIES = "For a series with a trend"
NOISE, MASK = "If training rows get noise", "If values of training rows are masked"
"""Beginnings of the fixes for single cases."""
OFF_CENTER, SAME_MEAN = 0.2, 0.05
"""Least distance of the mean from 0, and largest from the mean in training, in standard deviations
of the evaluation, for which another scale is excluded. Chosen by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Mean and standard deviation of the inputs of some calls together."""

    step: int
    rows: int
    mean: float
    std: float
    windows: bool
    zeros: float | None
    location: str | None


@frozen
class TrainEvalShift(Rule):
    """The evaluation inputs of a model have a different scale than its training inputs.

    What it detects:
        A floating-point argument of a model whose mean or standard deviation in evaluation is far
        from its value in training.

    Why it matters:
        The model gets inputs unlike any it was trained on. The loss stays high and the
        accuracy low, so the evaluation says nothing about what the model learned. Usually one of
        the two datasets is normalized and the other is not.

    Fires:
        When, in `share` of the evaluations, the mean is more than `error_shift` standard deviations
        of training away: error. Warning beyond `warning_shift`, when the standard deviation is not
        within 1/`warning_ratio` to `warning_ratio` times the value in training, and when a single
        evaluation of `far_rows` rows has `far_ratio` times the standard deviation in training.
        Needs at least `rows` rows in training and in evaluation. Instead of a warning, a note for
        windows of a series that goes on at another level: each row is one entry later than the row
        before, and the standard deviation is at least 1/`far_ratio` of its value in training. Says
        that a mask is the reason if the share of zeros is larger by at least `masked` in training.

    Stays quiet:
        Augmented training data. Evaluations on a few rows (rollouts, generated text). Arguments
        that are constant in evaluation (a time, a mask). Masks and integers. Modules that user code
        calls in only one of the two modes.

    What to do:
        - Apply the same transformation to training and evaluation data: compute mean and standard
          deviation on the training data, and use them for both.
        - Check units and types: images of 0 to 255 in one dataset, of 0 to 1 in the other.
        - Put the normalization into the model, where it cannot be forgotten.
        - If training rows get noise, add less: the training inputs have the mean of the evaluation
          inputs, but a far larger spread.
        - If values of training rows are masked, check which part is kept: far more of the values
          are 0 in training than in evaluation.
        - For a series with a trend, predict changes: subtract the last value of each window from
          the window and from its target.

    Example:
        x_train = (x_train - mean) / std
        accuracy = evaluate(model, x_test)                      # not normalized
        accuracy = evaluate(model, (x_test - mean) / std)       # with training's numbers

    References:
        Breck et al. 2019, Data validation for machine learning,
        https://mlsys.org/Conferences/2019/doc/2019/167.pdf
    """

    code = "DAT509"
    title = "shift between training and evaluation data"
    needs = (Need(facts=(InputDistribution,)),)
    explains = (
        "constant_output",
        "labels_unrelated",
        "loss_spike",
        "overfit",
        "overtraining",
        "unnormalized_input",
    )

    share: float = threshold(
        1 / 3, unit="of the evaluations", source="chosen by hand: others may use training data"
    )
    warning_ratio: float = threshold(
        2.5,
        unit="times the standard deviation in training",
        source="chosen by hand; a warning, since a scale alone hardly changes which class wins: "
        "with scales of up to 255, a classifier lost no accuracy",
    )
    error_shift: float = threshold(
        5.0,
        unit="standard deviations in training",
        source="measured: without a fault, a series with a trend reaches 2.7 at its end",
    )
    warning_shift: float = threshold(
        1.5, unit="standard deviations in training", source="chosen by hand"
    )
    far_ratio: float = threshold(
        20.0,
        unit="times the standard deviation in training",
        source="chosen by hand: different units, such as pixels from 0 to 255",
    )
    far_rows: int = threshold(64, unit="rows", source="chosen by hand")
    masked: float = threshold(0.5, unit="of the values", source="chosen by hand")
    rows: int = threshold(
        16, unit="rows", source="chosen by hand: fewer may be close together by chance"
    )

    def check(self, window: Window) -> list[Finding]:
        """Compare every argument that was recorded in training and in evaluation."""
        seen: dict[tuple[str, str], list[InputDistribution]] = defaultdict(list)
        for one in window.seen(InputDistribution):
            seen[one.module, one.argument].append(one)
        if not seen:
            raise NotEnoughData("no floating-point input of a model was recorded")
        findings, compared, few = [], False, False
        for name, every in seen.items():
            train = _together(one for one in every if one.mode is Mode.TRAIN)
            others = self._evaluations(every)
            if train is None or train.rows < self.rows or train.std <= 0 or not others:
                few |= self._are_few(every)
                continue
            compared = True
            found = self._judge(window, name, train, others)
            if found is not None:
                findings.append(found)
        if not compared and few:
            raise NotEnoughData(
                f"fewer than {self.rows} rows of an argument in training or evaluation"
            )
        if not compared:
            raise NotApplicable("no argument was recorded both in training and in an evaluation")
        return findings

    def _are_few(self, every: list[InputDistribution]) -> bool:
        """Return whether an argument occurs in training and evaluation, but in too few rows."""
        train = sum(one.rows for one in every if one.mode is Mode.TRAIN)
        by_step: dict[int, int] = defaultdict(int)
        for one in every:
            by_step[one.step] += one.rows if one.mode is Mode.EVAL else 0
        evaluation = max(by_step.values())
        return train > 0 < evaluation and min(train, evaluation) < self.rows

    def _evaluations(self, every: list[InputDistribution]) -> list[_Scale]:
        """Return the scales of large calls one by one, and of small calls merged by step."""
        found, small = [], defaultdict(list)
        for one in every:
            if one.mode is Mode.EVAL and one.rows >= self.rows:
                found.append(_together([one]))
            elif one.mode is Mode.EVAL:
                small[one.step].append(one)
        found += [_together(calls) for calls in small.values()]
        return [scale for scale in found if scale and scale.rows >= self.rows and scale.std > 0]

    def _judge(
        self, window: Window, name: tuple[str, str], train: _Scale, others: list[_Scale]
    ) -> Finding | None:
        limits = (
            (Severity.ERROR, math.inf, self.error_shift),
            (Severity.WARNING, self.warning_ratio, self.warning_shift),
        )
        for severity, ratio, shift in limits:
            far = [one for one in others if _is_far(train, one, ratio, shift)]
            if far and len(far) >= self.share * len(others):
                goes_on = severity is Severity.WARNING and self._goes_on(train, far)
                severity = Severity.INFO if goes_on else severity
                return self._finding(window, name, train, far, severity)
        alone = [one for one in others if self._has_another_unit(train, one)]
        return self._finding(window, name, train, alone, Severity.WARNING) if alone else None

    def _goes_on(self, train: _Scale, far: list[_Scale]) -> bool:
        """Return whether the evaluations are later parts of a series on the same scale."""
        return all(
            one.windows and 1 / self.far_ratio <= one.std / train.std <= self.warning_ratio
            for one in far
        )

    def _has_another_unit(self, train: _Scale, one: _Scale) -> bool:
        """Return whether an evaluation has values so large that even a single one is wrong."""
        return one.rows >= self.far_rows and one.std > self.far_ratio * train.std

    def _finding(
        self,
        window: Window,
        name: tuple[str, str],
        train: _Scale,
        far: list[_Scale],
        severity: Severity,
    ) -> Finding:
        module, argument = name
        first = min(far, key=lambda one: one.step)
        goes_on = severity is Severity.INFO
        masks, noisy = self._is_masked(train, first), _is_noisy(train, first)
        words, fix = "", ""
        if goes_on:
            words, fix = "; it consists of windows of a series at another level", SERIES
        elif masks:
            words = (
                f"; {train.zeros:.0%} of the values are 0 in training, and {first.zeros:.0%} in "
                "evaluation"
            )
            fix = MASK
        elif noisy:
            words, fix = (
                "; equal means exclude another scale, so noise was added in training",
                NOISE,
            )
        of_cases = (SERIES, NOISE, MASK)
        every = self.fixes(window)
        fixes = [one for one in every if one.startswith(fix or of_cases) == bool(fix)]
        return self.finding(
            window,
            severity=severity,
            step=train.step if masks or noisy else first.step,
            last_step=max(one.step for one in far),
            count=len(far),
            message=(
                f"argument {argument} of {module} has mean {first.mean:.3g} and standard "
                f"deviation {first.std:.3g} in evaluation, but mean {train.mean:.3g} and standard "
                f"deviation {train.std:.3g} in training{words}"
            ),
            fixes=tuple(fixes),
            layers=(module,),
            evidence={
                "argument": argument,
                "train_mean": train.mean,
                "train_std": train.std,
                "eval_mean": first.mean,
                "eval_std": first.std,
            },
            location=first.location,
            mode=Mode.EVAL.value,
        )

    def _is_masked(self, train: _Scale, other: _Scale) -> bool:
        if train.zeros is None or other.zeros is None:
            return False
        return train.zeros - other.zeros >= self.masked


def _is_noisy(train: _Scale, other: _Scale) -> bool:
    """Return whether training inputs are evaluation inputs and noise, not on another scale."""
    off_center = abs(other.mean) >= OFF_CENTER * other.std
    same_mean = abs(train.mean - other.mean) <= SAME_MEAN * other.std
    return off_center and same_mean and train.std > other.std


def _together(calls: Iterable[InputDistribution]) -> _Scale | None:
    """Combine the scales of several calls into one scale."""
    every = list(calls)
    rows = sum(one.rows for one in every)
    if not rows:
        return None
    mean = sum(one.rows * one.mean for one in every) / rows
    square = sum(one.rows * (one.std**2 + (one.mean - mean) ** 2) for one in every) / rows
    return _Scale(
        step=every[0].step,
        rows=rows,
        mean=mean,
        std=math.sqrt(square),
        windows=all(one.windows for one in every),
        zeros=_mean_zeros(every),
        location=every[0].location,
    )


def _mean_zeros(calls: list[InputDistribution]) -> float | None:
    """Return the share of zeros in several calls; None if it is unknown for one of them."""
    known = [(one.rows, one.zeros) for one in calls if one.zeros is not None]
    rows = sum(rows for rows, _ in known)
    return sum(n * zeros for n, zeros in known) / rows if len(known) == len(calls) else None


def _is_far(train: _Scale, other: _Scale, ratio: float, shift: float) -> bool:
    return (
        not 1 / ratio <= other.std / train.std <= ratio
        or abs(other.mean - train.mean) > shift * train.std
    )
