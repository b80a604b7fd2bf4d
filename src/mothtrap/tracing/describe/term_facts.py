"""Facts about the terms of a loss that a framework reads from a traced program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from mothtrap.core.facts.losses import CodeNoise, PolicyLoss
from mothtrap.tracing.source import mentions
from mothtrap.tracing.source.environments import maximizes_rewards, running_files

OF_TERMS: Final = (CodeNoise, PolicyLoss)
REPORTED_AT: Final = (4, 20)
"""Inspections of a loss after which its terms are reported."""
ADDED: Final = frozenset({False})


class ReadTerms(Protocol):
    """Terms of a loss."""

    @property
    def noise(self) -> str | None:
        """Return the wrong factor of the noise of a code; None if there is none."""

    @property
    def signs(self) -> frozenset[bool | None]:
        """Return whether weighted log probabilities are subtracted."""

    @property
    def values(self) -> frozenset[bool | None]:
        """Return whether outputs of a network that the loss does not train are subtracted."""


def facts_of(
    terms: ReadTerms, *, step: int, looks: int, location: str | None
) -> Iterator[CodeNoise | PolicyLoss]:
    """Yield the facts about terms that a program has in every call."""
    if terms.noise is not None:
        yield CodeNoise(step=step, looks=looks, factor=terms.noise, location=location)
    by_value = terms.values and not terms.signs
    signs = terms.values if by_value else terms.signs
    if signs:
        adds = signs == ADDED and maximizes_rewards(running_files(), mentions.loaded_files())
        yield PolicyLoss(
            step=step,
            looks=looks,
            added=looks if adds else 0,
            by_value=bool(by_value),
            location=location,
        )
