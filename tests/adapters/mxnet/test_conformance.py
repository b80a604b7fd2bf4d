"""The adapter of MXNet passes the suite that every adapter passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

mxnet = pytest.importorskip("mxnet")

from mxnet import autograd, gluon  # noqa: E402
from mxnet.ndarray import NDArray  # noqa: E402
from tests.adapters.mxnet import programs  # noqa: E402

from mothtrap.adapters.mxnet import ADAPTER  # noqa: E402
from mothtrap.testing import AdapterTests  # noqa: E402

pytestmark = pytest.mark.smoke


class TestMxnet(AdapterTests):
    adapter = ADAPTER
    steps = 12
    replaced = (gluon.Block, gluon.Trainer, NDArray, autograd)

    def train(self) -> bytes:
        return programs.weights_of(programs.classify(steps=12))

    def reported(self) -> Sequence[Callable[[], object]]:
        return [self.train, lambda: programs.classify(steps=2, evaluated=True)]
