"""Losses that train one network through another: a generator through its discriminator.

The discriminator learns one label for generated examples, and the generator should make it output
the opposite label. Generated examples are recognized because the discriminator gets the output of
another network, with or without its graph. The label of a loss is its target or, without one, the
sign of the score: 1 if the loss raises the score.

A policy may be trained through a value network in the same way. It should raise the value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.optim import Optimizer

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import LossTerm, Node, operation
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.entering_data import entering_data
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.core.facts.loss_terms import AgreeingLosses
from mothtrap.core.facts.policies import PolicyLoss
from mothtrap.tracing.source import mentions
from mothtrap.tracing.source.environments import maximizes_rewards, running_files

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot
    from mothtrap.adapters.torch.losses.forwards_seen import ForwardsSeen

ENOUGH = 8
"""Number of losses after which a fault is reported, as in `opponents_agree`."""
MAX_LOOKS = 240
"""Maximum number of inspected backward passes. Chosen by hand: a discriminator may make 20 steps
for each step of its generator, with two backward passes each."""
MAX_PLAYERS = 8
"""Maximum number of optimizers."""
MAX_OUTPUTS, COMPARED = 32, 16
"""Maximum number of remembered outputs of networks, and of the values that identify each."""
SPREAD, CLOSE = 0.5, 0.25
"""Maximum range of labels that count as one label, and maximum difference of two equal labels.
Chosen by hand: labels may be smoothed, or have noise."""
FAKE = 0.5
"""Labels below this value are for generated examples if another network ran just before."""
MAX_HEAD = 64
"""Maximum number of operations between an output and the parameters of its layer."""
_MONOTONE = frozenset(
    {"clamp_min", "exp", "leaky_relu", "log", "log_sigmoid", "relu", "sigmoid", "softplus", "tanh"}
)
"""Operations that keep the sign of a score, besides sums and views."""


class _Output(NamedTuple):
    """Identity of an output of a network: its address, size, and first values."""

    address: int
    size: int
    values: tuple[float, ...]


class _Score(NamedTuple):
    """Output of a network in a loss that asks for one label for all rows.

    Attributes:
        label: the label; None for a squared error with several targets.
        head: identity of a parameter of the last layer, by which the network is recognized.
        reached: identities of all parameters that the loss trains through the output.
        generated: the network got the output of another network, without its graph. Or it is the
            only network in the loss, and another player's network ran just before.
        place: line of the loss.
    """

    label: float | None
    head: int
    reached: frozenset[int]
    generated: bool
    place: str | None


@dataclass(slots=True)
class _Discriminator:
    """A network through which another player may be trained.

    Attributes:
        place: line of the loss that trains it.
        label: label that it learns for generated examples; None until it is known.
        every: labels of all its losses.
        agree: number of losses of another player that ask for `label`, too.
        unclear: labels contradict each other, so nothing is reported.
        errors: number of squared errors with several targets, by which a network learns values.
        lowered, raised: number of losses of another player that lower or raise its output.
    """

    place: str | None
    label: float | None = None
    every: list[float] = field(default_factory=list)
    agree: int = 0
    unclear: bool = False
    errors: int = 0
    lowered: int = 0
    raised: int = 0

    def label_of_generated(self) -> float | None:
        """Return the label for generated examples; None if unknown.

        A discriminator that learns only one label also learns it for generated examples.
        """
        if self.label is not None:
            return self.label
        same = max(self.every, default=0) - min(self.every, default=0) <= CLOSE
        return self.every[0] if same and len(self.every) >= 2 * ENOUGH else None


class OpponentObserver:
    """Compares the labels that two optimizers want for generated examples.

    Args:
        job: the job that trains the networks.
        forwards: outputs of the latest forward passes.
    """

    def __init__(self, job: Job, forwards: ForwardsSeen) -> None:
        self._job, self._forwards = job, forwards
        self._players: dict[int, frozenset[int]] = {}
        self._stepped: set[int] = set()
        self._outputs: deque[_Output] = deque(maxlen=MAX_OUTPUTS)
        self._waiting: list[_Score] = []
        self._discriminators: dict[int, _Discriminator] = {}
        self._looks = 0

    def loss_began(self, loss: BackwardRoot) -> None:
        """Read the labels of a loss, once two optimizers have stepped."""
        if self._stepped:
            self._assign_losses()
        if len(self._players) < 2 or self._looks >= MAX_LOOKS or loss.recomputes:
            return
        if loss.root.grad_fn is None:
            return
        self._looks += 1
        outputs = list(_outputs_of_networks(self._forwards))
        self._outputs.extend(output for output, _ in outputs)
        with torch.no_grad():
            scores = list(self._scores(loss.root.grad_fn, loss.place))
        if len(scores) == 1 and (scores[0].label or 0) < FAKE:
            after_other = any(self._is_other(owner, scores[0]) for _, owner in outputs)
            scores[0] = scores[0]._replace(generated=scores[0].generated or after_other)
        self._waiting += scores

    def stepping(self, optimizer: Optimizer) -> None:
        """Record which optimizer uses the gradients of the latest losses."""
        if self._looks >= MAX_LOOKS:
            return
        if id(optimizer) not in self._players and len(self._players) < MAX_PLAYERS:
            self._players[id(optimizer)] = frozenset(map(id, parameters(optimizer)))
        self._stepped.add(id(optimizer))

    def _scores(self, root: Node, place: str | None) -> Iterator[_Score]:
        for node, label in _labels(root, checkpointed=self._forwards.recomputes):
            outputs = list(_scored(node))
            if len(outputs) != 1:
                continue
            output = outputs[0][0]
            head = _nearest_parameter(output)
            reached, complete = graph.leaves_behind(output)
            if head is None or not complete:
                continue
            given = [one for one in entering_data(output) if one.is_floating_point()]
            generated = bool(given) and all(self._is_output(one) for one in given)
            yield _Score(label, head, frozenset(map(id, reached)), generated, place)

    def _is_output(self, values: torch.Tensor) -> bool:
        """Return whether a network has recently computed these values."""
        return values.numel() > 0 and _identity(values) in self._outputs

    def _is_other(self, owner: int, score: _Score) -> bool:
        """Return whether a parameter belongs to another player than the network of a score."""
        return any(owner in own and score.head not in own for own in self._players.values())

    def _assign_losses(self) -> None:
        """Process the latest losses, if exactly one optimizer has used their gradients."""
        waiting, self._waiting = self._waiting, []
        stepped, self._stepped = self._stepped, set()
        own = self._players.get(next(iter(stepped))) if len(stepped) == 1 else None
        if own is None:
            return
        for score in waiting:
            if score.head in own:
                generated = score.generated or not score.reached <= own
                self._trained_discriminator(score, generated)
            elif not score.reached.isdisjoint(own):
                self._trained_through(score)

    def _trained_discriminator(self, score: _Score, generated: bool) -> None:
        """Process a loss of a discriminator.

        Args:
            score: the output and its label.
            generated: the discriminator got generated examples.
        """
        trained = self._discriminators.setdefault(score.head, _Discriminator(score.place))
        if score.label is None:
            trained.errors += 1
            return
        if len(trained.every) < MAX_LOOKS:
            trained.every.append(score.label)
        if generated:
            trained.place = score.place
            trained.label = score.label if trained.label is None else trained.label
            trained.unclear = trained.unclear or abs(trained.label - score.label) > CLOSE

    def _trained_through(self, score: _Score) -> None:
        """Process a loss that trains another network through a discriminator or value network."""
        network = self._discriminators.get(score.head)
        if network is None or score.label is None:
            return
        if network.errors >= ENOUGH and not network.every:
            self._trained_policy(network, score)
            return
        label = network.label_of_generated()
        if network.unclear or label is None:
            return
        network.unclear = abs(label - score.label) > CLOSE
        network.agree += 1
        if network.unclear or network.agree != ENOUGH:
            return
        self._looks = MAX_LOOKS
        self._job.recorder.notes.observe(
            AgreeingLosses(
                step=self._job.grouper.step,
                label=round(score.label),
                looks=network.agree,
                location=score.place,
                other=network.place,
            )
        )

    def _trained_policy(self, values: _Discriminator, score: _Score) -> None:
        """Process a loss that trains a policy through the values that a network predicts."""
        values.raised += score.label == 1
        values.lowered += score.label == 0
        if values.raised or values.lowered != ENOUGH:
            return
        self._looks = MAX_LOOKS
        if maximizes_rewards(running_files(), mentions.loaded_files()):
            self._job.recorder.notes.observe(
                PolicyLoss(
                    step=self._job.grouper.step,
                    looks=values.lowered,
                    added=values.lowered,
                    by_value=True,
                    location=score.place,
                )
            )


def _outputs_of_networks(forwards: ForwardsSeen) -> Iterator[tuple[_Output, int]]:
    """Yield the outputs of the latest forward passes of whole networks.

    Each comes with the identity of the first parameter of its network.
    """
    latest = None
    for owner, tensor in forwards.retained:
        if owner is None and latest is not None:
            yield latest
        latest = None
        if owner is not None and tensor is not None and is_plain(tensor) and tensor.numel():
            latest = _identity(tensor), id(next(owner.parameters(), None))
    if latest is not None:
        yield latest


def _identity(tensor: torch.Tensor) -> _Output:
    first = tensor.detach().reshape(-1)[:COMPARED].tolist()
    return _Output(tensor.data_ptr(), tensor.numel(), tuple(first))


def _labels(root: Node, *, checkpointed: bool) -> Iterator[tuple[Node, float | None]]:
    """Yield the outputs of networks in a loss, each with the one label that the loss asks for.

    The label is None for a squared error with several targets.
    """
    terms = graph.loss_terms(root)
    for term in terms:
        label = _label(term, checkpointed=checkpointed)
        if term.source is not None and (label is not None or term.operation == "elementwise"):
            yield term.source, label
    if not terms:
        for node, negated in _scored(root):
            if negated is not None:
                yield node, float(negated)


def _label(term: LossTerm, *, checkpointed: bool) -> float | None:
    """Return the target of a loss if all rows have the same target, otherwise None."""
    if term.operation in ("nll", "cross_entropy") and term.classes == 2:
        counts = loss_values.label_counts(term)
        return float(counts[1] > 0) if counts is not None and 0 in counts else None
    is_binary = term.operation.startswith("binary")
    if not is_binary and not term.operation.startswith("elementwise"):
        return None
    target = loss_values.target(term, checkpointed=checkpointed)
    if target is None or not target.numel() or not is_plain(target):
        return None
    least, greatest = float(target.min()), float(target.max())
    if greatest - least > (SPREAD if is_binary else 0):
        return None
    label = (least + greatest) / 2
    return 1 - label if term.negated and is_binary else label


def _scored(root: Node) -> Iterator[tuple[Node, bool | None]]:
    """Yield the outputs of layers near a root, and whether each is subtracted; None if unknown."""
    waiting: deque[tuple[Node, bool | None]] = deque([(root, False)])
    seen = {root}
    while waiting and len(seen) <= graph.MAX_HEAD_NODES:
        node, negated = waiting.popleft()
        name = operation(node)
        if hasattr(node, "variable"):
            continue
        if name not in _MONOTONE and not graph.is_arithmetic(node):
            yield node, negated
            continue
        for place, (child, _) in enumerate(node.next_functions):
            if child is not None and child not in seen:
                seen.add(child)
                keeps = name in _MONOTONE
                sign = negated if keeps else graph.sign_through(negated, name, place)
                waiting.append((child, sign))


def _nearest_parameter(output: Node) -> int | None:
    """Return the identity of the parameter that is nearest to an output."""
    waiting, seen = deque([output]), 0
    while waiting and seen < MAX_HEAD:
        node = waiting.popleft()
        seen += 1
        variable = getattr(node, "variable", None)
        if isinstance(variable, torch.Tensor):
            return id(variable)
        waiting.extend(child for child, _ in node.next_functions if child is not None)
    return None
