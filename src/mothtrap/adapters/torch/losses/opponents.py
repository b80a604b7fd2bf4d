"""Losses that train a network through another player's: generators, and policies.

A generator and its discriminator should not ask for the same answer.

The generated examples are recognized because the discriminator gets the output of another network,
with or without its graph. The label of a loss is its target or, without one, the sign of the score.
A policy that is trained through a value network should raise its value.
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
from mothtrap.core.facts.losses import AgreeingLosses, PolicyLoss
from mothtrap.tracing.source import mentions
from mothtrap.tracing.source.environments import maximizes_rewards, running_files

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot
    from mothtrap.adapters.torch.losses.forwards_seen import ForwardsSeen

ENOUGH = 8
"""Steps of a generator that agree with its discriminator, as in `opponents_agree`."""
MAX_LOOKS = 240
"""Maximum number of inspected backward passes. Chosen by hand: a discriminator may make 20 steps
for each step of its generator, with two backward passes each."""
MAX_PLAYERS = 8
"""Maximum number of optimizers."""
MAX_MADE, COMPARED = 32, 16
"""Maximum number of remembered outputs of networks, and of the values that identify each."""
SPREAD, CLOSE = 0.5, 0.25
"""Range of labels that count as one label, and the difference of equal labels. Chosen by hand:
labels may be smoothed, or have noise."""
FAKE = 0.5
"""Label below which a network that ran just before a loss has probably made its examples."""
MAX_HEAD = 64
"""Maximum number of operations between an output and the parameters of its layer."""
_MONOTONE = frozenset(
    {"clamp_min", "exp", "leaky_relu", "log", "log_sigmoid", "relu", "sigmoid", "softplus", "tanh"}
)
"""Operations that keep the sign of a score, besides sums and views."""


class _Made(NamedTuple):
    """An output of a network: its address and first values."""

    place: int
    size: int
    values: tuple[float, ...]


class _Score(NamedTuple):
    """A term of a loss that asks for a label of all outputs of a network.

    `label` is None for a squared error with several targets.
    `head` is the identity of a parameter of the last layer, `reached` contains those of all
    parameters. `generated`: the network got the output of another network, without its graph; or it
    is the only network in a loss before which another player's network ran.
    """

    label: float | None
    head: int
    reached: frozenset[int]
    generated: bool
    place: str | None


@dataclass(slots=True)
class _Judge:
    """A discriminator: the label that it learns for generated examples, and what followed.

    `label` is None until it is known. `every` contains the labels of all its losses. `errors` is
    the number of squared errors by which it learned values; `lowered` is the number of losses that
    lowered its output for another player, and `raised` of those that raised it.
    """

    place: str | None
    label: float | None = None
    every: list[float] = field(default_factory=list)
    agree: int = 0
    unclear: bool = False
    errors: int = 0
    lowered: int = 0
    raised: int = 0

    def known_label(self) -> float | None:
        """Return the label for generated examples; None if unknown.

        A discriminator that learns the same label for all examples also learns it for these.
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
        self._made: deque[_Made] = deque(maxlen=MAX_MADE)
        self._waiting: list[_Score] = []
        self._judges: dict[int, _Judge] = {}
        self._looks = 0

    def loss_began(self, loss: BackwardRoot) -> None:
        """Read the labels of a loss, once two optimizers have made steps."""
        if self._stepped:
            self._resolve()
        if len(self._players) < 2 or self._looks >= MAX_LOOKS or loss.recomputes:
            return
        if loss.root.grad_fn is None:
            return
        self._looks += 1
        made = list(_outputs_of_roots(self._forwards))
        self._made.extend(one for one, _ in made)
        with torch.no_grad():
            scores = list(self._scores(loss.root.grad_fn, loss.place))
        if len(scores) == 1 and (scores[0].label or 0) < FAKE:
            after = any(self._is_other(owner, scores[0]) for _, owner in made)
            scores[0] = scores[0]._replace(generated=scores[0].generated or after)
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
            head = _first_parameter(output)
            reached, complete = graph.leaves_behind(output)
            if head is None or not complete:
                continue
            given = [one for one in entering_data(output) if one.is_floating_point()]
            generated = bool(given) and all(self._was_made(one) for one in given)
            yield _Score(label, head, frozenset(map(id, reached)), generated, place)

    def _was_made(self, values: torch.Tensor) -> bool:
        return values.numel() > 0 and _identity(values) in self._made

    def _is_other(self, owner: int, score: _Score) -> bool:
        """Return whether a parameter belongs to another player than the judge of a score."""
        return any(owner in own and score.head not in own for own in self._players.values())

    def _resolve(self) -> None:
        """Process the losses whose gradients one optimizer has used."""
        waiting, self._waiting = self._waiting, []
        stepped, self._stepped = self._stepped, set()
        own = self._players.get(next(iter(stepped))) if len(stepped) == 1 else None
        if own is None:
            return
        for score in waiting:
            if score.head in own:
                generated = score.generated or not score.reached <= own
                self._judged(score, generated)
            elif not score.reached.isdisjoint(own):
                self._made_to_pass(score)

    def _judged(self, score: _Score, generated: bool) -> None:
        """Process a loss of a discriminator."""
        judge = self._judges.setdefault(score.head, _Judge(score.place))
        if score.label is None:
            judge.errors += 1
            return
        if len(judge.every) < MAX_LOOKS:
            judge.every.append(score.label)
        if generated:
            judge.place = score.place
            judge.label = score.label if judge.label is None else judge.label
            judge.unclear = judge.unclear or abs(judge.label - score.label) > CLOSE

    def _made_to_pass(self, score: _Score) -> None:
        """Process a loss that trains a generator through its discriminator."""
        judge = self._judges.get(score.head)
        if judge is None or score.label is None:
            return
        if judge.errors >= ENOUGH and not judge.every:
            self._valued(judge, score)
            return
        label = judge.known_label()
        if judge.unclear or label is None:
            return
        judge.unclear = abs(label - score.label) > CLOSE
        judge.agree += 1
        if judge.unclear or judge.agree != ENOUGH:
            return
        self._looks = MAX_LOOKS
        self._job.recorder.notes.observe(
            AgreeingLosses(
                step=self._job.grouper.step,
                label=round(score.label),
                looks=judge.agree,
                location=score.place,
                other=judge.place,
            )
        )

    def _valued(self, judge: _Judge, score: _Score) -> None:
        """Process a loss that trains a policy through the values that a network predicts."""
        judge.raised += score.label == 1
        judge.lowered += score.label == 0
        if judge.raised or judge.lowered != ENOUGH:
            return
        self._looks = MAX_LOOKS
        if maximizes_rewards(running_files(), mentions.loaded_files()):
            self._job.recorder.notes.observe(
                PolicyLoss(
                    step=self._job.grouper.step,
                    looks=judge.lowered,
                    added=judge.lowered,
                    by_value=True,
                    location=score.place,
                )
            )


def _outputs_of_roots(forwards: ForwardsSeen) -> Iterator[tuple[_Made, int]]:
    """Yield the outputs of the latest forward passes of whole networks.

    Each comes with the identity of a parameter of its network, or 0.
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


def _identity(tensor: torch.Tensor) -> _Made:
    first = tensor.detach().reshape(-1)[:COMPARED].tolist()
    return _Made(tensor.data_ptr(), tensor.numel(), tuple(first))


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
    """Return the target of a loss if it is the same for all outputs."""
    if term.operation in ("nll", "cross_entropy") and term.classes == 2:
        counts = loss_values.label_counts(term)
        return float(counts[1] > 0) if counts is not None and 0 in counts else None
    if not term.operation.startswith(("binary", "elementwise")):
        return None
    target = loss_values.target(term, checkpointed=checkpointed)
    if target is None or not target.numel() or not is_plain(target):
        return None
    least, greatest = float(target.min()), float(target.max())
    if greatest - least > (SPREAD if term.operation.startswith("binary") else 0):
        return None  # squared errors of several targets are those of values
    label = (least + greatest) / 2
    return 1 - label if term.negated and term.operation.startswith("binary") else label


def _scored(root: Node) -> Iterator[tuple[Node, bool | None]]:
    """Yield the outputs of layers near a root, and whether each is subtracted."""
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


def _first_parameter(output: Node) -> int | None:
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
