"""Facts about the terms of a loss in a traced program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from mothtrap.core.facts.loss_terms import CodeNoise
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.tracing.source import mentions
from mothtrap.tracing.source.environments import maximizes_rewards, running_files

OF_TERMS: Final = (CodeNoise, PolicyLoss)
REPORTED_AT: Final = (4, 20)
"""Inspections of a loss after which its terms are reported."""
ADDED: Final = frozenset({False})
"""Signs of terms that are all added to the loss."""


class ReadTerms(Protocol):
    """Terms of a loss."""

    @property
    def noise(self) -> str | None:
        """Wrong factor of the noise of a latent code; None if the factor is right or unknown."""

    @property
    def signs(self) -> frozenset[bool | None]:
        """Signs of the weighted log probabilities, as in `LossTerms.policy_signs`."""

    @property
    def values(self) -> frozenset[bool | None]:
        """Signs of the outputs of networks that the loss does not train."""


def facts_of(
    terms: ReadTerms, *, step: int, looks: int, location: str | None
) -> Iterator[CodeNoise | PolicyLoss]:
    """Yield the facts about the terms of a loss.

    Args:
        terms: the terms, which are the same in every call of the program.
        step: step in progress.
        looks: number of inspected calls.
        location: line of the loss.
    """
    if terms.noise is not None:
        yield CodeNoise(step=step, looks=looks, factor=terms.noise, location=location)
    by_value = bool(terms.values) and not terms.signs
    signs = terms.values if by_value else terms.signs
    if signs:
        adds = signs == ADDED and maximizes_rewards(running_files(), mentions.loaded_files())
        yield PolicyLoss(
            step=step,
            looks=looks,
            added=looks if adds else 0,
            by_value=by_value,
            location=location,
        )
