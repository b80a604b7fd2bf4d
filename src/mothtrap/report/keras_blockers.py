"""Reasons that keep a run of Keras or TensorFlow from being reproducible, by its ledger."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.core.ledger import Ledger, Start
from mothtrap.report.blocker import Blocker

PIPELINE = "tensorflow.data "
SEED = "keras.utils.set_random_seed(0) at the top of the script"


def blockers(ledger: Ledger) -> Iterator[Blocker]:
    """Yield the blockers of a run that trained with Keras."""
    random, switches = ledger.facts.get("random", {}), ledger.facts.get("determinism", {})
    if "start.keras" not in random:
        return
    is_seeded = random.get("start.tensorflow") == Start.SEEDED
    if random["start.keras"] == Start.UNSEEDED:
        more = ", only `tf.random.set_seed`" if is_seeded else ""
        yield Blocker(
            state="may" if is_seeded else "will",
            what=f"`keras.utils.set_random_seed` was not called{more}: initial weights, "
            "dropout, and the order of batches depend on it",
            fix=SEED,
        )
    stateful = str(switches.get("tensorflow.stateful_random") or "")
    if stateful and not is_seeded:
        yield Blocker(
            state="will",
            what=f"the step draws from {stateful}, and no seed was set",
            fix=f"{SEED}, or `tf.random.stateless_*` with your own seed",
        )
    for name, what in switches.items():
        if name.startswith(PIPELINE):
            yield from _pipeline(name.removeprefix(PIPELINE), str(what))
    if not switches.get("tensorflow.op_determinism"):
        yield Blocker(
            state="may",
            what="operations may sum in any order (op determinism is off)",
            fix="tf.config.experimental.enable_op_determinism() before the model is created",
        )


def _pipeline(where: str, what: str) -> Iterator[Blocker]:
    if "shuffle" in what:
        yield Blocker(
            state="will",
            what="the dataset is shuffled without a seed",
            where=where,
            fix="shuffle(..., seed=0)",
        )
    if "deterministic" in what:
        yield Blocker(
            state="will",
            what="the dataset yields elements in the order in which threads finish them",
            where=where,
            fix="remove deterministic=False",
        )
