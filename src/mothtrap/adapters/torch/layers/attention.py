"""Distribution of attention weights, read from the graph of a loss in sampled steps.

A fused attention does not store its scores. They are recomputed, for some rows and queries, from
the queries and keys that its node saves. An attention without a fused operation saves its weights
at the softmax whose result is multiplied with the values. Tensors that a hook packed
(checkpointing, offloading) are not read, because unpacking would run a segment again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.layers import attention_masks
from mothtrap.adapters.torch.layers.attention_scores import VIEWS, product_under
from mothtrap.core.facts.layers import AttentionLook, MaskOfOnes
from mothtrap.core.schedule import Schedule
from mothtrap.statistics.torch.plain import to_host

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

WHEN = Schedule(logarithmic=True)
MAX_NODES = 4096
"""Maximum number of visited nodes of a graph."""
MAX_OPERATIONS = 16
MAX_ROWS, MAX_QUERIES = 4, 32
"""Number of examples, and of queries per example, whose weights are inspected; chosen by hand."""
MIN_CHOICES = 8
"""Minimum number of keys for a query to count: with fewer, any weights are concentrated."""
_BETWEEN = ("native_dropout", "mul", "div", "where", "nan_to_num", "masked_fill")
"""Operations that may be between attention weights and their product with values."""
_SOFTMAX = ("softmax", "safe_softmax")


class AttentionObserver:
    """Inspects every attention layer under a loss in sampled steps."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._step = -1
        self._masks: set[str] = set()

    def loss_began(self, loss: BackwardRoot) -> None:
        """Inspect the graph of a loss."""
        site, root, checkpointed = loss.site, loss.root, loss.recomputes
        step = self._job.grouper.step
        if step == self._step or checkpointed or not WHEN.is_due(step) or root.grad_fn is None:
            return
        self._step = step
        nodes = sorted(set(attentions(root.grad_fn)), key=_place)[:MAX_OPERATIONS]
        for node in nodes:
            self._report_mask(node, site)
        looks = [look for node in nodes if (look := _look(node)) is not None]
        numbers = to_host([look.numbers for look in looks])
        for number, (look, found) in enumerate(zip(looks, numbers, strict=True)):
            *entropies, largest, top, scaled_top = (_known(float(value)) for value in found)
            known = tuple(entropy for entropy in entropies if entropy is not None)
            complete = len(known) == len(entropies)
            if not complete and look.scale is None:
                continue
            self._job.recorder.notes.observe(
                AttentionLook(
                    step=step,
                    number=number,
                    of=len(looks),
                    heads=len(entropies),
                    keys=look.keys,
                    entropies=known if complete else (),
                    largest_logit=largest,
                    scale=look.scale,
                    width=look.width,
                    top_weight=top,
                    scaled_top_weight=scaled_top,
                    location=site,
                )
            )

    def _report_mask(self, node: Node, site: str) -> None:
        """Report, once for each line, a mask of zeros and ones."""
        given = [_saved(node, name) for name in ("attn_mask", "attn_bias")]
        mask = next(filter(attention_masks.is_of_ones, given), None)
        if mask is not None and site not in self._masks:
            self._masks.add(site)
            fact = MaskOfOnes(step=self._step, shape=tuple(mask.shape), location=site)
            self._job.recorder.notes.observe(fact)


def attentions(root: Node) -> Iterator[Node]:
    """Return the nodes of a graph that are fused attention, or softmaxes of attention."""
    waiting, seen = [root], {root}
    while waiting and len(seen) < MAX_NODES:
        node = waiting.pop()
        name = str(node.name())
        if "ScaledDotProduct" in name:
            yield node
        elif name.startswith("Bmm"):
            softmax = _softmax_of(node)
            if softmax is not None:
                yield softmax
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)


def _softmax_of(product: Node) -> Node | None:
    """Return the softmax whose result a matrix product multiplies, directly or after dropout."""
    for child, _ in product.next_functions:
        node = child
        while node is not None and operation(node) in (*_BETWEEN, *VIEWS):
            node = node.next_functions[0][0]
        if node is not None and operation(node) in _SOFTMAX:
            return node
    return None


def _place(node: Node) -> int:
    """Sort key for the order of execution."""
    return int(node._sequence_nr())


@dataclass(frozen=True, slots=True)
class _Look:
    """Measurements of one attention.

    `numbers` are the relative entropies of the heads, then the largest score, the mean of the
    largest weight of a query, and this mean with the usual scale; NaN = unknown.
    """

    keys: int
    numbers: torch.Tensor
    scale: float | None = None
    width: int | None = None


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _look(node: Node) -> _Look | None:
    if operation(node) in _SOFTMAX:
        weights = _saved(node, "result")
        return None if weights is None else _by_weights(node, weights)
    query, key = _saved(node, "query"), _saved(node, "key")
    if query is None or key is None or query.ndim != 4 or key.shape[1] != query.shape[1]:
        return None
    return _by_scores(node, query, key)


def _by_scores(node: Node, query: torch.Tensor, key: torch.Tensor) -> _Look:
    usual = query.shape[-1] ** -0.5
    scale = getattr(node, "_saved_scale", None)
    scale = usual if scale is None else float(scale)
    length, keys = query.shape[-2], key.shape[-2]
    chosen = _queries(length, query.device)
    query, key = query.detach()[:MAX_ROWS, :, chosen], key.detach()[:MAX_ROWS]
    with torch.autocast(query.device.type, enabled=False):
        products = query.float() @ key.float().transpose(-1, -2)
    scores = products * scale
    allowed = torch.ones_like(scores, dtype=torch.bool)
    if getattr(node, "_saved_is_causal", False):
        allowed &= chosen[:, None] >= torch.arange(keys, device=query.device)
    mask = _saved(node, "attn_mask") if hasattr(node, "_saved_attn_mask") else None
    if mask is None and hasattr(node, "_saved_attn_bias"):
        mask = _saved(node, "attn_bias")
    if mask is not None and {mask.shape[-2], mask.shape[-1]} <= {1, length, keys}:
        wide = mask.expand(*mask.shape[:-2], length, keys)[..., chosen, :]
        wide = wide[:MAX_ROWS] if wide.ndim == 4 else wide
        if wide.dtype == torch.bool:
            allowed &= wide
        else:
            scores, allowed = scores + wide, allowed & torch.isfinite(wide)
    largest = torch.where(allowed, scores, torch.zeros_like(scores)).abs().amax()
    weights = _softmax(scores, allowed)
    scaled = _softmax(products * usual, allowed)
    choices = allowed.sum(-1)
    numbers = [_entropies(weights, choices), largest, *_tops(weights, scaled, choices)]
    return _Look(keys, _joined(numbers), scale, query.shape[-1])


def _by_weights(node: Node, weights: torch.Tensor) -> _Look | None:
    if weights.ndim not in (3, 4):
        return None
    length, keys = weights.shape[-2:]
    chosen = _queries(length, weights.device)
    # Without a head axis, the first axis may be heads or examples.
    every = weights.detach()
    every = every[:MAX_ROWS] if weights.ndim == 4 else every[None]
    every = every[:, :64]
    causal = length == keys and not bool(every.triu(diagonal=1).any())
    choices = chosen + 1 if causal else torch.full_like(chosen, keys)
    sampled = every[:, :, chosen].float()
    entropies = _entropies(sampled, choices.expand(sampled.shape[:-1]))
    unknown = torch.full((3,), torch.nan, device=weights.device)
    product = product_under(node, _saved)
    lead = weights.shape[:-2].numel()
    if product is None or not product.before or product.query.shape[:2] != (lead, length):
        return _Look(keys, _joined([entropies, unknown]))
    query = product.query.reshape(*weights.shape[:-1], -1)
    key = product.key.reshape(*weights.shape[:-2], -1, keys)
    if weights.ndim == 3:
        query, key = query[None], key[None]
    query, key = query[:MAX_ROWS, :64, chosen], key[:MAX_ROWS, :64]
    with torch.autocast(weights.device.type, enabled=False):
        products = query.float() @ key.float()
    allowed = torch.ones_like(products, dtype=torch.bool)
    if causal:
        allowed &= chosen[:, None] >= torch.arange(keys, device=weights.device)
    scores = torch.where(allowed, products * product.after, torch.zeros_like(products))
    width = int(product.query.shape[-1])
    scaled = _softmax(products / product.before * width**-0.5, allowed)
    tops = _tops(sampled, scaled, allowed.sum(-1))
    numbers = [entropies, scores.abs().amax(), *tops]
    return _Look(keys, _joined(numbers), product.after * product.before, width)


def _softmax(scores: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return torch.where(allowed, scores, torch.full_like(scores, -torch.inf)).softmax(-1)


def _joined(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([part.reshape(-1).float() for part in parts])


def _queries(length: int, device: torch.device) -> torch.Tensor:
    """Return the queries to inspect, evenly spaced, including the last one."""
    count = min(length, MAX_QUERIES)
    return torch.linspace(0, length - 1, count, device=device).round().long()


def _entropies(weights: torch.Tensor, choices: torch.Tensor) -> torch.Tensor:
    """Return the relative entropy by head; NaN if no query has choices."""
    entropy = -torch.xlogy(weights, weights).sum(-1)
    counts = choices >= MIN_CHOICES
    relative = torch.where(counts, entropy / choices.clamp(min=2).log(), torch.zeros_like(entropy))
    return relative.sum(dim=(0, 2)) / counts.sum(dim=(0, 2))


def _tops(
    weights: torch.Tensor, scaled: torch.Tensor, choices: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean of the largest weight of queries with choices, for each of two weights."""
    counts = choices >= min(MIN_CHOICES, weights.shape[-1] // 2 + 1)
    every = (torch.where(counts, each.amax(-1), 0.0).sum() for each in (weights, scaled))
    first, second = (total / counts.sum() for total in every)
    return first, second


def _saved(node: Node, name: str) -> torch.Tensor | None:
    """Return a saved tensor of a node; None if it is packed, freed, or not a plain tensor."""
    raw: Any = getattr(node, f"_raw_saved_{name}", None)
    if getattr(raw, "unpack_hook", None) is not None:
        return None
    try:
        value = getattr(node, f"_saved_{name}", None)
    except RuntimeError:  # freed by an earlier backward
        return None
    return value if isinstance(value, torch.Tensor) and is_plain(value) else None
