"""TensorFlow: loops with a gradient tape, eager or in a `tf.function`."""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from mothtrap.adapters.tensorflow.own_loops import TensorFlowHandle
from mothtrap.adapters.tensorflow.reports import REPORTS
from mothtrap.adapters.tensorflow.stalled_input import StalledInput
from mothtrap.core.adapters import Environment
from mothtrap.tracing.adapter_parts import StallParts
from mothtrap.tracing.handle import AdapterSpec


def _place() -> Environment:
    """Return the position of this process among the workers of `tf.distribute`."""
    versions = {"tensorflow": str(tf.__version__)}
    context = tf.distribute.get_strategy().cluster_resolver
    if context is None or not context.task_type:
        return Environment(versions=versions)
    size = sum(len(jobs) for jobs in context.cluster_spec().as_dict().values())
    return Environment(rank=int(context.task_id or 0), size=size, versions=versions)


ADAPTER: Final = AdapterSpec(
    framework="tensorflow",
    handle=TensorFlowHandle,
    requires="tensorflow>=2.16",
    reports=REPORTS,
    watched=(tf.Module,),
    place=_place,
    stalls=StallParts(reading=StalledInput()),
)
