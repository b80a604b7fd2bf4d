"""MXNet's gluon: steps of a `Trainer`, with losses, gradients, weights and layers.

Only classes of the library are patched, never objects of the user. Values are copied to the host,
which waits for the engine but changes nothing. There are no snapshots, because random states cannot
be read.
"""

from __future__ import annotations

from typing import Final

from mxnet import gluon

from mothtrap.adapters.mxnet.hooks import EACH_STEP, SAMPLED, GluonHandle
from mothtrap.core.reports import Reports
from mothtrap.core.steps import Mode
from mothtrap.tracing.handle import AdapterSpec

ADAPTER: Final = AdapterSpec(
    framework="mxnet",
    handle=GluonHandle,
    requires="mxnet==1.9.1",
    reports=Reports(
        kinds=frozenset(
            {"weight", "bias", "gradient", "activation", "input", "output", "label", "loss"}
        ),
        scalars=frozenset({"loss", "lr"}),
        facts=frozenset({*EACH_STEP, *SAMPLED}),
        modes=frozenset({Mode.TRAIN, Mode.EVAL}),
    ),
    watched=(gluon.Block, gluon.Trainer),
)
