"""Start of a replay: choose how to repeat the recorded step."""

from __future__ import annotations

from pathlib import Path

import keras
import tensorflow as tf

from mothtrap.adapters.keras.loop_replaying import BatchReplay, CountReplay, FunctionReplay
from mothtrap.adapters.keras.replaying import ReplayingHandle
from mothtrap.core.replays import ReplayPlan
from mothtrap.snapshot.format import load
from mothtrap.tracing.snapshots.playback import quiet_job

LOOPS = {"function": FunctionReplay, "batch": BatchReplay, "count": CountReplay}


def begin(plan: ReplayPlan) -> None:
    """Replay a snapshot in the script that is about to run."""
    tf.get_logger().setLevel("INFO")
    if plan.dtype:
        keras.config.set_floatx(plan.dtype)  # models and converted states need it
    state = load(Path(plan.workers[min(plan.workers)])).snapshot.state
    content = dict(state["dict"]) if isinstance(state, dict) else {}
    kind = LOOPS.get(str(content.get("loop")), ReplayingHandle)
    kind(quiet_job("keras"), plan)
