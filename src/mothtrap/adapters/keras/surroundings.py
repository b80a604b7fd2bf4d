"""Settings that affect the numbers of Keras and TensorFlow: seeds, determinism, pipelines."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mothtrap.adapters.keras import internals
from mothtrap.adapters.tensorflow import internals as tensorflow_names
from mothtrap.adapters.tensorflow.hooks import LOOKS
from mothtrap.adapters.tensorflow.probes.batches import stateful_randomness
from mothtrap.core.ledger import LedgerValue, Start

Facts = dict[str, dict[str, LedgerValue]]
UNSEEDED, ANY_ORDER = "shuffle without a seed", "deterministic=False"


class KerasSurroundings:
    """Settings read at the end of the first step.

    Args:
        pipelines: reasons why the order of batches is not fixed, by the line of `fit`.

    Attributes:
        facts: as in `core.ledger.Ledger`.
        missing: always empty.
    """

    def __init__(self, pipelines: dict[str, str]) -> None:
        seed, seed_of_all = internals.global_seed(), tensorflow_names.global_seed()
        random: dict[str, LedgerValue] = {
            "start.keras": Start.UNSEEDED if seed is None else Start.SEEDED,
            "start.tensorflow": Start.UNSEEDED if seed_of_all is None else Start.SEEDED,
        }
        random |= {} if seed is None else {"seed.keras": seed}
        random |= {} if seed_of_all is None else {"seed.tensorflow": seed_of_all}
        if seed is not None:  # `set_random_seed` seeds these, too
            random |= {"start.python": Start.SEEDED, "start.numpy": Start.SEEDED}
        switches: dict[str, LedgerValue] = {
            "tensorflow.op_determinism": tensorflow_names.is_deterministic(),
            **{f"tensorflow.data {where}": what for where, what in pipelines.items()},
        }
        self.facts: Facts = {"random": random, "determinism": switches}
        self.missing: dict[str, str] = {}
        self._graphs = LOOKS.graphs()

    def later(self) -> Facts:
        """Return the operations of the programs with internal random state."""
        found = sorted({name for graph in self._graphs for name in stateful_randomness(graph)})
        self._graphs = []
        return {"determinism": {"tensorflow.stateful_random": ", ".join(found)}}


def open_order(data: Any) -> str:
    """Return why the order of a pipeline's batches is not fixed; '' if it is."""
    if not isinstance(data, tf.data.Dataset):
        return ""
    found = {ANY_ORDER} if data.options().deterministic is False else set[str]()
    for one in tensorflow_names.every_part(data):
        found |= set(tensorflow_names.open_order(one))
    return ", ".join(sorted(found, reverse=True))
