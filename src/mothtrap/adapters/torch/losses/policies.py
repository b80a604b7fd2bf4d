"""Policies: weights of log probabilities in the loss, and the entropy of actions."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation, output_shape
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.policy_entropies import adds_entropy
from mothtrap.adapters.torch.losses.saved_values import SavedValues
from mothtrap.adapters.torch.losses.trained_targets import (
    BEFORE_LOG_PROBS,
    MAX_SIGNS,
    is_log_prob,
)
from mothtrap.core.facts.policies import PolicyEntropy, PolicyLoss
from mothtrap.tracing.source import mentions
from mothtrap.tracing.source.environments import maximizes_rewards, running_files

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

LOOK_AT = (1, 3, 5, 8, 12, 20, 30, 45, 60, 80)
"""Backward passes of a line at which its loss is inspected. Rewards may be rare in the first
episodes.
"""
REPORT_AT = (12, 80)
"""Number of backward passes of a line after which they are reported."""
MEAN_OF = 5
"""Number of steps whose entropies are averaged. Chosen by hand."""
FIRST_REPORT = 5
"""Steps with draws before the first report; each further report comes after twice as many."""
LOWEST = -80.0
"""Represents the logarithm of 0 in a product with 0."""
MAX_SAMPLES = 4096
"""Maximum number of action samples that are stored until a step ends."""
LEAST_WEIGHTS = 8
"""Minimum number of weights that must be equal to count as constant. Chosen by hand: in a short
episode, all actions may have the same return."""
DRAWS = 8
"""Draws since the last step whose entropy is read. Chosen by hand: 0.3 ms per step."""


class SampledActions:
    """The actions that distributions have drawn since the last step.

    Attributes:
        entropies: entropies of the first draws, each as a share of the largest possible entropy.
        choices: choices of the latest distribution.
    """

    def __init__(self) -> None:
        self._places: set[int] = set()
        self.entropies: list[float] = []
        self.choices = 0

    def drawn(self, actions: Any, distribution: Any = None) -> None:
        """Handle actions drawn by a categorical distribution."""
        if isinstance(actions, torch.Tensor) and is_plain(actions):
            if len(self._places) >= MAX_SAMPLES:
                self._places.clear()
            self._places.add(actions.data_ptr())
        if distribution is not None and len(self.entropies) < DRAWS:
            self._read_entropy(vars(distribution))

    def _read_entropy(self, held: dict[str, Any]) -> None:
        """Read the entropy from the attributes of a distribution, which are normalized."""
        given = held.get("probs", held.get("logits"))
        if not isinstance(given, torch.Tensor) or not is_plain(given) or given.shape[-1] < 2:
            return
        with torch.no_grad():
            logits = given.log() if "probs" in held else given
            entropy_N = -(logits.exp() * logits.clamp(min=LOWEST)).sum(-1)
        self.choices = given.shape[-1]
        self.entropies.append(float(entropy_N.mean()) / math.log(self.choices))

    def has(self, actions: torch.Tensor) -> bool:
        """Return whether a tensor shares memory with a drawn action."""
        return actions.data_ptr() in self._places

    def clear(self) -> None:
        """Handle the end of a step."""
        self._places.clear()

    def take_entropies(self) -> list[float]:
        """Return and remove the entropies of draws since the last step."""
        taken, self.entropies = self.entropies, []
        return taken


class EntropyObserver:
    """Tracks the entropy of a policy.

    Args:
        job: the job that trains the policy.
        sampled: the drawn actions.
    """

    def __init__(self, job: Job, sampled: SampledActions) -> None:
        self._job, self._sampled = job, sampled
        self._first: list[float] = []
        self._last: deque[float] = deque(maxlen=MEAN_OF)
        self._looks, self._next = 0, FIRST_REPORT
        self._location: str | None = None

    def loss_began(self, loss: BackwardRoot) -> None:
        """Record the line of a loss."""
        self._location = loss.place

    def closed(self, step: int) -> None:
        """Process the draws before a step."""
        entropies = self._sampled.take_entropies()
        if not entropies:
            return
        mean = sum(entropies) / len(entropies)
        self._looks += 1
        self._last.append(mean)
        if len(self._first) < MEAN_OF:
            self._first.append(mean)
        if self._looks == self._next:
            self._next *= 2
            self._job.recorder.notes.observe(
                PolicyEntropy(
                    step=step,
                    share=sum(self._last) / len(self._last),
                    first=sum(self._first) / len(self._first),
                    choices=self._sampled.choices,
                    looks=self._looks,
                    location=self._location,
                )
            )


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the results of their inspections.

    `weights` contains the weight of the log probabilities in each pass; None if they differ.
    """

    zero: int = 0
    unweighted: int = 0
    added: int = 0
    entropies: int = 0
    weights: set[float | None] = field(default_factory=set)


class PolicyObserver(LineObserver[_Line]):
    """Determines the weights of log probabilities from the graph of a loss.

    Args:
        job: the job that trains the policy.
        sampled: the drawn actions.
    """

    def __init__(self, job: Job, sampled: SampledActions) -> None:
        super().__init__(job, _Line, LOOK_AT)
        self._sampled = sampled

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        saved = SavedValues()
        are_zero: list[bool] = []
        are_own: list[bool] = []
        signs: set[bool | None] = set()
        weights: set[float | None] = set()
        for found in _log_probs(root, saved):
            if found.product is None:
                are_own.append(self._is_own(saved, found.node))
            else:
                are_zero.append(_is_zero(saved, found.product, found.weight))
                weights.add(_only_weight(saved, found.product, found.weight))
                signs.add(found.negated)
        if are_zero or any(are_own):
            line.looks += 1
            line.weights |= weights
            line.zero += bool(are_zero) and all(are_zero)
            line.entropies += bool(are_zero) and adds_entropy(root)
            line.unweighted += bool(are_own) and all(are_own) and not are_zero
            line.added += signs == {False} and maximizes_rewards(
                running_files(), mentions.loaded_files()
            )
        if line.backwards in REPORT_AT and line.looks:
            self._job.recorder.notes.observe(
                PolicyLoss(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    zero=line.zero,
                    unweighted=line.unweighted,
                    added=line.added,
                    constant=_constant_weight(line),
                    entropy_added=line.entropies,
                    location=place,
                )
            )

    def closed(self, _: int) -> None:
        """Discard the actions of a completed step."""
        self._sampled.clear()

    def _is_own(self, saved: SavedValues, gathered: Node) -> bool:
        """Return whether the policy itself drew the action of a log probability."""
        index = saved.of(gathered).get("index")
        return index is not None and self._sampled.has(index)


@dataclass(frozen=True, slots=True)
class _LogProb:
    """A log probability in a loss.

    Attributes:
        node: the node that gathered or multiplied it.
        product: the node that multiplies it with its weight; None if it is only averaged.
        weight: name under which the product has saved the weight.
        negated: it is subtracted from the loss, for a positive weight; None if unknown.
    """

    node: Node
    product: Node | None = None
    weight: str = ""
    negated: bool | None = None


def _log_probs(root: Node, saved: SavedValues) -> Iterator[_LogProb]:
    """Yield the log probabilities near a root, each with its product and the name of its weight.

    The weight is a number, or several, without a graph. Without a factor, the log probability is
    only averaged, and the result contains the node that gathered it.
    """
    waiting = deque([(root, _LogProb(root, negated=False))])
    seen = {root}
    for _ in range(graph.MAX_HEAD_NODES):  # only the first terms of an episode are inspected
        if not waiting:
            return
        node, way = waiting.popleft()
        name, weighted = operation(node), _weighted(node)
        negated = way.negated
        if weighted is not None and is_log_prob(weighted[0]):
            if way.product is not None:
                negated = _scaled(negated, saved, node, weighted[1])
            negated = _sign_before(weighted[0], negated)
            yield _LogProb(weighted[0], node, weighted[1], negated)
            continue
        if name == "gather":
            yield replace(way, node=node)
        if weighted is not None:
            negated = _scaled(negated, saved, node, weighted[1])
            if output_shape(node):  # a number may be a coefficient
                way = replace(way, product=node, weight=weighted[1])
        if node is root or graph.is_arithmetic(node):
            for place, (child, _) in enumerate(node.next_functions):
                if child is None or child in seen:
                    continue
                seen.add(child)
                sign = graph.sign_through(negated, name, place) if weighted is None else negated
                waiting.append((child, replace(way, negated=sign)))


def _scaled(negated: bool | None, saved: SavedValues, product: Node, name: str) -> bool | None:
    """Return the sign of a product with a single number, which may be a coefficient or a return.

    Negative numbers other than -1 may be returns, which do not change the sign of a gain.
    """
    factor = saved.of(product).get(name)
    if negated is None or factor is None:
        return None
    if factor.numel() != 1 or float(factor) > 0:
        return negated
    return not negated if float(factor) == -1 else None


def _sign_before(node: Node, negated: bool | None) -> bool | None:
    """Return whether a log probability is subtracted; its negative may have been weighted."""
    for _ in range(MAX_SIGNS):
        if negated is None or operation(node) not in BEFORE_LOG_PROBS:
            break
        negated = negated != (operation(node) == "neg")
        node = next(child for child, _ in node.next_functions if child is not None)
    return negated


def _weighted(node: Node) -> tuple[Node, str] | None:
    """Return the weighted factor of a product, and the name of a weight without a graph."""
    inputs = [child for child, _ in node.next_functions]
    if operation(node) != "mul" or len(inputs) != 2 or inputs.count(None) != 1:
        return None
    place = inputs.index(None)
    return inputs[1 - place], ("self", "other")[place]


def _only_weight(saved: SavedValues, product: Node, name: str) -> float | None:
    """Return the weight of the log probabilities if all have this weight, otherwise None."""
    weight = saved.of(product).get(name)
    if weight is None or weight.numel() < LEAST_WEIGHTS:
        return None
    least, greatest = float(weight.min()), float(weight.max())
    return least if least == greatest else None


def _constant_weight(line: _Line) -> float | None:
    """Return the weight if it is the same in all passes, although an environment gives rewards."""
    if len(line.weights) != 1 or line.unweighted:
        return None
    [weight] = line.weights
    rewarded = weight and maximizes_rewards(running_files(), mentions.loaded_files())
    return weight if rewarded else None


def _is_zero(saved: SavedValues, product: Node, name: str) -> bool:
    weight = saved.of(product).get(name)
    return weight is not None and not bool(weight.any())
