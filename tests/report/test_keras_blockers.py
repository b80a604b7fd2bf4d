"""Reasons that keep a run of Keras from being repeated are named, from its ledger."""

from __future__ import annotations

from mothtrap.core.ledger import Ledger, LedgerValue, Start
from mothtrap.report.keras_blockers import blockers
from mothtrap.report.reproducibility_blockers import blockers as all_blockers


def ledger(random: dict[str, LedgerValue], **switches: LedgerValue) -> Ledger:
    facts = {"random": random, "determinism": switches}
    return Ledger(created_s=0.0, rank=0, framework="keras", arguments=(), cwd="", facts=facts)


def test_each_reason_is_named_with_its_line() -> None:
    unseeded: dict[str, LedgerValue] = {
        "start.keras": Start.UNSEEDED,
        "start.tensorflow": Start.UNSEEDED,
    }
    switches: dict[str, LedgerValue] = {
        "tensorflow.op_determinism": False,
        "tensorflow.stateful_random": "RandomStandardNormal",
        "tensorflow.data train.py:8": "shuffle without a seed, deterministic=False",
    }
    found = list(blockers(ledger(unseeded, **switches)))
    said = [(one.state, one.where) for one in found]
    assert said == [
        ("will", ""),
        ("will", ""),
        ("will", "train.py:8"),
        ("will", "train.py:8"),
        ("may", ""),
    ]
    assert "RandomStandardNormal" in found[1].what


def test_nothing_is_said_of_a_seeded_run_nor_of_another_framework() -> None:
    seeded: dict[str, LedgerValue] = {
        f"start.{name}": Start.SEEDED for name in ("keras", "tensorflow", "python", "numpy")
    }
    switches: dict[str, LedgerValue] = {
        "tensorflow.op_determinism": True,
        "tensorflow.stateful_random": "RandomUniform",
    }
    assert not list(blockers(ledger(seeded, **switches)))
    assert not list(blockers(ledger({})))
    said = " ".join(one.what for one in all_blockers(ledger(seeded, **switches), None, (), ()))
    assert "torch" not in said
