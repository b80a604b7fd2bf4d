"""Changes of training rows that may keep their label: images, tables, sound, and text.

Shape suffixes: R = rows, F = features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mothtrap.behavior.inside import channel_axis
from mothtrap.behavior.sklearn.generated_rows import autoencoded, interpolated

Kind = Literal["image", "table", "sound", "text"]
Array = npt.NDArray[Any]
Make = Callable[[Array, Array, np.random.Generator], Array]
"""Returns changed rows, given rows (R, ...), their targets (R,), and random numbers."""


@dataclass(frozen=True, slots=True)
class Transformation:
    """A transformation of rows.

    Attributes:
        name: Name shown to users.
        make: Function that returns the transformed rows.
        code: The transformation as Python code, for rows `X`.
    """

    name: str
    make: Make
    code: str


def menu(kind: Kind) -> tuple[Transformation, ...]:
    """Return the transformations for one kind of rows."""
    return MENUS[kind]


def _plane(rows: Array) -> tuple[int, int]:
    """Return the axes of height and width."""
    return (2, 3) if channel_axis(rows.shape) == 1 else (1, 2)


def _flip(axis: int) -> Make:
    return lambda rows, _, __: np.flip(rows, _plane(rows)[axis]).copy()


def _rotate(degrees: float) -> Make:
    def make(rows: Array, _: Array, rng: np.random.Generator) -> Array:
        from scipy.ndimage import rotate

        axes = tuple(axis - 1 for axis in _plane(rows))
        angle_R = rng.uniform(-degrees, degrees, len(rows))
        turned = [
            rotate(row, angle, axes=axes, reshape=False, order=1, mode="nearest")
            for row, angle in zip(rows, angle_R, strict=True)
        ]
        return np.stack(turned).astype(rows.dtype)

    return make


def _shift(rows: Array, _: Array, rng: np.random.Generator) -> Array:
    high, wide = _plane(rows)
    moves = rng.integers(-1, 2, (len(rows), 2))
    moved = [
        np.roll(row, tuple(move), axis=(high - 1, wide - 1))
        for row, move in zip(rows, moves, strict=True)
    ]
    return np.stack(moved)


def _brightness(rows: Array, _: Array, rng: np.random.Generator) -> Array:
    span = np.ptp(rows)
    change = rng.uniform(-0.1, 0.1, (len(rows), *[1] * (rows.ndim - 1))) * span
    return np.asarray(np.clip(rows + change, rows.min(), rows.max()), rows.dtype)


def _erase(rows: Array, _: Array, rng: np.random.Generator) -> Array:
    found, (high, wide) = rows.copy(), _plane(rows)
    side = [max(1, rows.shape[axis] // 5) for axis in (high, wide)]
    for row in found:
        begin = [
            int(rng.integers(0, rows.shape[axis] - size + 1))
            for axis, size in zip((high, wide), side, strict=True)
        ]
        where: list[Any] = [slice(None)] * row.ndim
        for axis, at, size in zip((high - 1, wide - 1), begin, side, strict=True):
            where[axis] = slice(at, at + size)
        row[tuple(where)] = rows.mean()
    return found


def _noise(share: float) -> Make:
    def make(rows: Array, _: Array, rng: np.random.Generator) -> Array:
        values = rows.astype(np.float64)
        spread = values.std(axis=0, keepdims=True) if rows.ndim == 2 else np.ptp(values)
        return (values + share * spread * rng.normal(size=rows.shape)).astype(values.dtype)

    return make


def _later(rows: Array, _: Array, rng: np.random.Generator) -> Array:
    most = max(1, rows.shape[-1] // 50)
    moves = rng.integers(-most, most + 1, len(rows))
    return np.stack([np.roll(row, move, -1) for row, move in zip(rows, moves, strict=True)])


def _louder(rows: Array, _: Array, rng: np.random.Generator) -> Array:
    gain = rng.uniform(0.7, 1.4, (len(rows), *[1] * (rows.ndim - 1)))
    return (rows * gain).astype(rows.dtype)


def _faster(rows: Array, _: Array, rng: np.random.Generator) -> Array:
    count = rows.shape[-1]
    at = np.arange(count)
    speeds = rng.uniform(0.95, 1.05, len(rows))
    flat = rows.reshape(len(rows), -1, count)
    found = [
        [np.interp(at * speed, at, channel) for channel in row]
        for row, speed in zip(flat, speeds, strict=True)
    ]
    return np.asarray(found, rows.dtype).reshape(rows.shape)


def _each_text(change: Callable[[str, np.random.Generator], str]) -> Make:
    def make(rows: Array, _: Array, rng: np.random.Generator) -> Array:
        return np.array([change(str(text), rng) for text in rows.ravel()], object).reshape(
            rows.shape
        )

    return make


def _typo(text: str, rng: np.random.Generator) -> str:
    if len(text) < 4:
        return text
    at = int(rng.integers(1, len(text) - 2))
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]


def _without_word(text: str, rng: np.random.Generator) -> str:
    words = text.split()
    if len(words) < 4:
        return text
    del words[int(rng.integers(0, len(words)))]
    return " ".join(words)


def _swapped_words(text: str, rng: np.random.Generator) -> str:
    words = text.split()
    if len(words) < 3:
        return text
    at = int(rng.integers(0, len(words) - 1))
    words[at], words[at + 1] = words[at + 1], words[at]
    return " ".join(words)


MENUS: dict[Kind, tuple[Transformation, ...]] = {
    "image": (
        Transformation("flip left and right", _flip(1), "X[..., ::-1]"),
        Transformation("flip up and down", _flip(0), "X[..., ::-1, :]"),
        Transformation("rotate by 5 degrees", _rotate(5), "transforms.RandomRotation(5)"),
        Transformation("rotate by 15 degrees", _rotate(15), "transforms.RandomRotation(15)"),
        Transformation("shift by 1 pixel", _shift, "transforms.RandomAffine(0, (1 / width,) * 2)"),
        Transformation("brightness", _brightness, "transforms.ColorJitter(brightness=0.1)"),
        Transformation("erase a fifth", _erase, "transforms.RandomErasing(scale=(0.04, 0.04))"),
        Transformation(
            "noise of 2 %", _noise(0.02), "X + 0.02 * np.ptp(X) * rng.normal(size=X.shape)"
        ),
    ),
    "table": (
        Transformation(
            "noise of 5 %", _noise(0.05), "X + 0.05 * X.std(0) * rng.normal(size=X.shape)"
        ),
        Transformation("interpolation", interpolated, "SMOTE().fit_resample(X, y)"),
        Transformation("autoencoder", autoencoded, "transformations.autoencoded(X, y, rng)"),
    ),
    "sound": (
        Transformation("shift in time", _later, "np.roll(X, shift, axis=-1)"),
        Transformation("volume", _louder, "X * rng.uniform(0.7, 1.4, (len(X), 1))"),
        Transformation("speed", _faster, "transforms.SpeedPerturbation(rate, [0.95, 1.05])"),
        Transformation(
            "noise of 2 %", _noise(0.02), "X + 0.02 * X.std() * rng.normal(size=X.shape)"
        ),
    ),
    "text": (
        Transformation("one typo", _each_text(_typo), "swap two neighboring letters"),
        Transformation("lower case", _each_text(lambda text, _: text.lower()), "text.lower()"),
        Transformation("leave out a word", _each_text(_without_word), "drop one word"),
        Transformation("swap two words", _each_text(_swapped_words), "swap neighboring words"),
    ),
}
