"""Hand-made windows of workers that train one model."""

from __future__ import annotations

from collections.abc import Callable

from tests.rules.test_ranks_diverge import joined, started
from tests.rules.windows import window

from mothtrap.core.fact import Fact
from mothtrap.core.facts.replicas import ReplicaDigests, UnwrappedDigests
from mothtrap.core.findings import Finding
from mothtrap.core.rule import Rule
from mothtrap.core.window import Window

STEPS = (0, 1, 3, 7, 15)
"""Steps in which workers are compared."""


def wrapped() -> list[Fact]:
    """Equal digests of a wrapped model."""
    return [ReplicaDigests(step=step, digests={"fc": f"fc{step}"}) for step in STEPS]


def by_hand(own: dict[str, str] | None = None, initial: str = "0") -> list[Fact]:
    """Digests of parameters without a wrapper.

    Args:
        own: digests of modules at each of `STEPS`, one character per step; `fc` changes and is
            equal on all workers.
        initial: digest of each module before the first step.
    """
    modules = {"fc": "abcde"} | (own or {})
    first = dict.fromkeys(modules, initial)
    return [
        UnwrappedDigests(
            step=step,
            digests={name: text[place] for name, text in modules.items()},
            initial={} if place else first,
        )
        for place, step in enumerate(STEPS)
    ]


def worker(rank: int, *facts: Fact, size: int = 2) -> Window:
    """A worker that has made 20 steps."""
    return window(started(size), *facts, worker=rank, steps=20)


def check(
    rule: Rule, *facts: list[Fact], common: Callable[[], list[Fact]] = wrapped
) -> list[Finding]:
    """Evaluate a rule on workers with these facts, and with facts that show one model."""
    workers = [worker(rank, *common(), *own, size=len(facts)) for rank, own in enumerate(facts)]
    return rule.check(joined(*workers))
