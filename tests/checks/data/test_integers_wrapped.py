"""Pictures of bytes that were read as signed numbers."""

from __future__ import annotations

import numpy as np
import pytest
from tests.checks.given import Given, finding, passes, result

CODE = "PRE312"


def pictures() -> np.ndarray:
    """Smooth pictures of all grey levels, shape (60, 1, 24, 24)."""
    rng = np.random.default_rng(0)
    place = np.linspace(0, np.pi, 24)
    waves = rng.uniform(0.5, 3, size=(60, 2, 1))
    rows, columns = np.sin(waves[:, 0] * place + 1), np.sin(waves[:, 1] * place)
    found = 127.5 * (1 + rows[:, :, None] * columns[:, None, :])
    return found[:, None].clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("scale", [1.0, 1 / 255, 1 / 128])
def test_signed_bytes_are_named(scale: float) -> None:
    signed = pictures().astype(np.int8).astype(np.float32) * np.float32(scale)
    found = finding(CODE, Given(signed))
    assert found.severity == "error"
    assert found.evidence["middle"] > found.evidence["zero"]


@pytest.mark.parametrize(
    "healthy",
    [
        lambda x: x,
        lambda x: x.astype(np.float32) / 255,
        lambda x: x.astype(np.float32) - 128,
        lambda x: (x.astype(np.float32) - 128) / 128,
        lambda x: (x.astype(np.float32) - 120.7) / 61.3,
        lambda x: np.where(x > 127, 127, -128).astype(np.int8),
    ],
    ids=["bytes", "0 to 1", "centered", "-1 to 1", "standardized", "black and white"],
)
def test_other_ranges_are_no_fault(healthy) -> None:  # type: ignore[no-untyped-def]
    assert passes(CODE, Given(healthy(pictures())))


def test_tables_have_no_neighbors() -> None:
    assert result(CODE, Given(np.zeros((9, 3), np.int8))).state == "not_applicable"
