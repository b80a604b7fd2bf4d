"""The adapter of JAX passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("equinox")

from tests.adapters.jax import reported  # noqa: E402
from tests.adapters.jax.training import PROGRAMS, STEPS, as_bytes  # noqa: E402

from mothtrap.adapters.jax import ADAPTER  # noqa: E402
from mothtrap.testing import AdapterTests  # noqa: E402

pytestmark = pytest.mark.smoke


class TestJax(AdapterTests):
    adapter = ADAPTER
    steps = STEPS
    replaced: ClassVar = (jax,)
    elsewhere: ClassVar = {
        "EvaluatedCopy": "tests/adapters/jax/test_target_networks.py",
        "OneBatchUsed": "tests/adapters/jax/test_same_rows.py",
        "UnreadEnds": "tests/adapters/jax/test_episode_ends.py",
        "SummedGradients": "tests/adapters/jax/test_accumulation.py",
        "OptimizerFacts": "tests/adapters/jax/test_restarts.py",
        "CodeNoise": "tests/adapters/jax/test_loss_terms.py",
        "PolicyLoss": "tests/adapters/jax/test_loss_terms.py",
        "TrainingMode": "tests/adapters/jax/test_norm_modes.py",
        "ValueReadOnce": "tests/adapters/jax/test_read_once.py",
        "ZeroSlope": "tests/adapters/jax/test_slopes.py",
    }

    def train(self) -> bytes:
        return as_bytes(PROGRAMS["linen"]())

    def reported(self) -> Sequence[Callable[[], object]]:
        return reported.TRAININGS
