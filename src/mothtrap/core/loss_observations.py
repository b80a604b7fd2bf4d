"""Facts about what a loss is given: its targets, and the tokens of a model's input."""

from __future__ import annotations

import msgspec

from mothtrap.core.observation import Observation


class TargetSample(msgspec.Struct, frozen=True, kw_only=True):
    """What the targets of one loss call are like; None = not looked at or not to be had.

    `count` targets were looked at, of type `dtype`; `least` and `greatest` of those that
    are finite and not ignored. `ignored_share`: of labels that the loss was told to leave
    out. `outside_share`: of targets that the last operation before the loss cannot give,
    such as negative ones after a rectifier. `weighted`: the loss weighs classes.
    `input_offsets`: every k for which the targets are the integer inputs of the model k
    positions later wherever that can be said; None where targets do not lie along inputs.
    `telling_columns`: columns of the model's input that give the target away, each alone.
    `columns`: how many the input has.
    `by_position`: an example has several labels: the model put out more axes than the loss
    was given.
    `confusion`: labels (rows) against predicted classes, row by row, of at most 20 classes;
    not of tokens.
    `normalized`: exponents of the prediction's rows sum to 1, as of log-probabilities.
    """

    dtype: str
    count: int
    least: float | None = None
    greatest: float | None = None
    ignored_share: float | None = None
    outside_share: float | None = None
    weighted: bool = False
    input_offsets: tuple[int, ...] | None = None
    telling_columns: tuple[int, ...] | None = None
    columns: int | None = None
    by_position: bool = False
    confusion: tuple[int, ...] | None = None
    normalized: bool | None = None


class FailedLoss(Observation, frozen=True, kw_only=True, tag=True):
    """A loss call whose exception ended the script: what it was given.

    `operation` as in `LossCall`; `least` and `greatest` of the targets, `predicted_least`
    and `predicted_greatest` of the predictions; None where they cannot be read any more.
    """

    operation: str
    error: str
    classes: int | None = None
    target_dtype: str | None = None
    least: float | None = None
    greatest: float | None = None
    predicted_least: float | None = None
    predicted_greatest: float | None = None
    location: str | None = None


class TokenShares(Observation, frozen=True, kw_only=True, tag=True):
    """How often the most frequent integers stand in an integer input of a model.

    `shares` goes by value, the most frequent first; `count` elements were looked at.
    """

    argument: str
    count: int
    shares: dict[int, float]
