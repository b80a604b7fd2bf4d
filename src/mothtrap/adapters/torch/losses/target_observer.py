"""Inspections of the inputs of losses, and of a model's tokens, on sampled backward passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import torch

from mothtrap.adapters.torch.job.graph import LossTerm, nodes, operation
from mothtrap.adapters.torch.losses.causality import looks_ahead
from mothtrap.adapters.torch.losses.loss_targets import (
    Forward,
    latest_forward,
    sample,
    with_rows,
)
from mothtrap.adapters.torch.losses.token_inputs import are_tokens, sequences
from mothtrap.core.facts.losses import LossCall, TargetSample, TokenShares
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.tracing.describe.loss_numbers import MAX_TARGETS
from mothtrap.tracing.source.mentions import only_call

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.losses.forwards_seen import ForwardsSeen

FIRST_LOOKS = 3
"""Number of inspections of a call site that include expensive checks."""
TOKENS_EVERY = 8
"""Inspections of a call site in which tokens are counted: the first ones, then one in N."""
MAX_SHARES = 16
"""Number of reported most frequent tokens."""
PACKS = "pack_padded_sequence"
"""Operation by which recurrent layers get sequences without their padding."""
_ATTENTIONS = ("scaled_dot_product_attention", "softmax", "Softmax", "MultiheadAttention")


class TargetObserver:
    """Adds a description of its targets to a loss call, using the model's inputs."""

    def __init__(self, job: Job, forwards: ForwardsSeen) -> None:
        self._job, self._forwards = job, forwards
        self._looks: dict[str, int] = {}

    def look(
        self,
        site: str,
        term: LossTerm,
        call: LossCall,
        terms: Sequence[LossTerm] = (),
        *,
        alone: bool,
    ) -> LossCall:
        """Return the call with the description of its targets.

        Args:
            site: call site of the backward pass.
            term: the loss operation.
            call: known data about the call.
            terms: all operations of the loss, each of which may have one row of the targets.
            alone: the loss has no other term.
        """
        looks = self._looks[site] = self._looks.get(site, -1) + 1
        forward = latest_forward(self._forwards.retained, term.node)
        first = looks < FIRST_LOOKS
        if first or looks % TOKENS_EVERY == 0:
            self._count_tokens(forward, term)
        checkpointed = self._forwards.recomputes
        found = sample(term, forward, checkpointed=checkpointed, columns=first, alone=alone)
        if found is not None and found.input_offsets is None and len(terms) > 1:
            found = with_rows(found, terms, forward, checkpointed=checkpointed)
        ahead = self._looks_ahead(term, found, forward) if first else None
        return msgspec.structs.replace(
            call,
            targets=found,
            looks_ahead=ahead,
            made_at=only_call(*_ATTENTIONS) if ahead == "attention" else call.made_at,
            model_inputs=tuple(type_name(tensor.dtype) for tensor in forward.inputs),
        )

    def _looks_ahead(
        self, term: LossTerm, found: TargetSample | None, forward: Forward
    ) -> str | None:
        if found is None or not found.input_offsets or self._forwards.recomputes:
            return None
        every_sequence = sequences(forward.inputs, term.classes)
        lengths = {size for tokens in every_sequence for size in tokens.shape}
        modules = [owner for owner, _ in self._forwards.retained if owner is not None]
        every = [looks_ahead(term.node, modules, length) for length in sorted(lengths)]
        return next((what for what in every if what), "")

    def _count_tokens(self, forward: Forward, term: LossTerm) -> None:
        every = [tensor for tensor in forward.inputs if are_tokens(tensor)]
        packed = bool(every) and any(operation(node) == PACKS for node in nodes([term.node]))
        for place, tokens in enumerate(every):
            values, counts = torch.unique(tokens.reshape(-1)[:MAX_TARGETS], return_counts=True)
            most = counts.argsort(descending=True)[:MAX_SHARES]
            total = int(counts.sum())
            shares = zip(values[most].tolist(), counts[most].tolist(), strict=True)
            self._job.recorder.notes.observe(
                TokenShares(
                    step=self._job.grouper.step,
                    argument=str(place),
                    count=total,
                    shares={value: count / total for value, count in shares},
                    packed=packed,
                )
            )
