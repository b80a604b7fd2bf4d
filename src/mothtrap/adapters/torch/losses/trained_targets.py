"""Losses whose target has a gradient although it should be constant."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.optim import Optimizer

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation
from mothtrap.adapters.torch.losses.line_looks import Line, LineLooks
from mothtrap.adapters.torch.optimization.parameter_list import parameters
from mothtrap.core.facts.targets import TrainedTarget

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job
    from mothtrap.adapters.torch.job.observers import BackwardRoot

_TWO_SIDED = frozenset(["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
MAX_SIGNS = 4
"""Maximum number of views and sign changes before a log probability. Chosen by hand."""
BEFORE_LOG_PROBS = frozenset(
    ["neg", "squeeze", "unsqueeze", "view", "select", "sum", "clamp", "stack", "cat", "unbind"]
)
_NORMAL = ("sub", "sub", "div", "neg", "pow", "sub")
"""Operations of `Normal.log_prob`, the last operation first."""
_JOINS = frozenset(["cat", "stack"])
_OF_DIFFERENCES = frozenset(["pow", "abs", "mul"])


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the results of their inspections."""

    trained: int = 0
    idle: int = 0
    advantages: int = 0


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of the loss of the step in progress.

    Attributes:
        line: line of the backward call.
        place: the line of the loss.
        reached: identities of the parameters that the target reaches.
        continued: the target is a reward and a discounted prediction.
        advantage: it is not a target, but the advantage that weights a log probability.
    """

    line: _Line
    place: str | None
    reached: frozenset[int]
    continued: bool
    advantage: bool = False


class TrainedTargetObserver:
    """Detects from the graph of a loss whether its target trains any parameters."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._lines = LineLooks(_Line)
        self._target: _Target | None = None
        self._stepped: set[int] = set()

    def loss_began(self, loss: BackwardRoot) -> None:
        """Inspect both sides of a loss if due."""
        self._target = None
        line = self._lines.due(loss)
        if line is None or loss.root.grad_fn is None:
            return
        line.looks += 1
        self._stepped.clear()
        for prediction, target in _sides(loss.root.grad_fn):
            self._target = _judge(line, loss.place, prediction, target)
            if self._target is not None:
                return
        advantage = _advantage(loss.root.grad_fn)
        if advantage is not None:
            leaves, _ = graph.leaves_behind(advantage)
            reached = frozenset(id(leaf) for leaf in leaves)
            self._target = _Target(line, loss.place, reached, continued=False, advantage=True)

    def stepping(self, optimizer: Optimizer) -> None:
        """Record the parameters that an optimizer updates after the loss."""
        if self._target is not None:
            self._stepped.update(id(p) for p in parameters(optimizer))

    def closed(self, step: int) -> None:
        """Compare the parameters that the target reaches with the stepped parameters."""
        target, self._target = self._target, None
        if target is None or not self._stepped:
            return
        line = target.line
        trains = not target.reached.isdisjoint(self._stepped)
        line.trained += trains and target.continued
        line.idle += not trains and not target.advantage
        line.advantages += trains and target.advantage
        if line.is_complete:
            self._job.recorder.notes.observe(
                TrainedTarget(
                    step=step,
                    looks=line.looks,
                    trained=line.trained,
                    idle=line.idle,
                    advantages=line.advantages,
                    location=target.place,
                )
            )


def _judge(line: _Line, place: str | None, prediction: Node, target: Node) -> _Target | None:
    """Return the side that is the target; None if it is unclear."""
    if _is_continued(prediction) and not _is_continued(target):
        prediction, target = target, prediction
    continued = _is_continued(target) and not _is_continued(prediction)
    of_target, all_of_target = graph.leaves_behind(target)
    of_prediction, all_of_prediction = graph.leaves_behind(prediction)
    if not (all_of_target and all_of_prediction and of_target):
        return None
    reached = frozenset(id(leaf) for leaf in of_target)
    apart = reached.isdisjoint(id(leaf) for leaf in of_prediction)
    return _Target(line, place, reached, continued) if continued or apart else None


def _sides(root: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the two sides of each loss near a root, the first operand first, if both have a graph.

    A difference whose square or absolute value is taken is a loss, too.
    """
    waiting, seen = deque([root]), {root}
    while waiting and len(seen) <= graph.MAX_HEAD_NODES:
        node = waiting.popleft()
        children = [child for child, _ in node.next_functions if child is not None]
        sides = _two_sides(node, children)
        if sides is not None:
            yield sides
        elif node is root or graph.is_arithmetic(node):
            waiting.extend(child for child in children if child not in seen)
            seen.update(children)


def _two_sides(node: Node, children: list[Node]) -> tuple[Node, Node] | None:
    """Return the operands of a loss of two operands that have a graph."""
    name = operation(node)
    if name in _TWO_SIDED and len(children) == 2:
        return children[0], children[1]
    if name == "sub" and len(children) == 2 and operation(children[0]) == "xlogy":  # kl_div
        target = children[0].next_functions[0][0]
        weighted = [child for child, _ in children[1].next_functions]
        others = [child for child in weighted if child is not None and child is not target]
        return (others[0], target) if target in weighted and len(others) == 1 else None
    if name in _OF_DIFFERENCES and children:
        difference = graph.through_views(children[0])
        if difference is not None and operation(difference) == "sub":
            sides = [child for child, _ in difference.next_functions if child is not None]
            return (sides[0], sides[1]) if len(sides) == 2 else None
    return None


def _advantage(root: Node) -> Node | None:
    """Return the advantage that multiplies a log probability near a root, if it has a graph.

    The advantage is a difference, such as `returns - values`; the log probability was gathered for
    an action, or is the ratio of two probabilities.
    """
    waiting, seen = deque([root]), {root}
    for _ in range(graph.MAX_HEAD_NODES):  # only the first terms of an episode are inspected
        if not waiting:
            return None
        node = waiting.popleft()
        children = [child for child, _ in node.next_functions if child is not None]
        if operation(node) == "mul" and len(children) == 2:
            for chosen, other in (children, children[::-1]):
                weight = graph.through_views(other)
                if is_log_prob(chosen) and weight and operation(weight) == "sub":
                    return weight
        waiting.extend(child for child in children if child not in seen)
        seen.update(children)
    return None


def is_log_prob(node: Node) -> bool:
    """Return whether a node is the log probability of a chosen action, or such a ratio."""
    for _ in range(MAX_SIGNS):
        name = operation(node)
        if name == "gather" or graph.is_ratio(node):
            return True
        if _is_log_of_chosen(node) or _is_log_of_normal(node):
            return True
        behind = next((child for child, _ in node.next_functions if child is not None), None)
        if name not in BEFORE_LOG_PROBS or behind is None:
            return False
        node = behind
    return False


def _is_log_of_chosen(node: Node) -> bool:
    """Return whether a node is `log(probabilities[action])` with softmax probabilities."""
    if operation(node) != "log":
        return False
    chooses, behind = False, node.next_functions[0][0]
    for _ in range(MAX_SIGNS):
        name = operation(behind) if behind is not None else ""
        if name not in ("select", "index", "gather", "squeeze", "unsqueeze", "view"):
            break
        chooses = chooses or name in ("select", "index", "gather")
        behind = behind.next_functions[0][0]
    return chooses and behind is not None and operation(behind) == "softmax"


def _is_log_of_normal(node: Node) -> bool:
    """Return whether a node is the result of `Normal.log_prob`, for an action without a graph.

    That is `-((action - mean) ** 2) / (2 * variance) - log(deviation) - constant`.
    """
    behind: Node | None = node
    for place, name in enumerate(_NORMAL):
        if behind is None or operation(behind) != name:
            return False
        if place < len(_NORMAL) - 1:
            behind = behind.next_functions[0][0]
    return behind is not None and behind.next_functions[0][0] is None


def _is_continued(node: Node | None) -> bool:
    """Return whether a node adds a reward to a weighted prediction: `reward + gamma * value`.

    Of joined targets, such as those of several steps, the first with a graph is inspected.
    """
    node = graph.through_views(node)
    if node is not None and operation(node) in _JOINS:
        node = graph.through_views(next((c for c, _ in node.next_functions if c is not None), None))
    if node is None or operation(node) != "add":
        return False
    weighted = graph.through_views(_only_child(node))
    return weighted is not None and operation(weighted) == "mul" and bool(_only_child(weighted))


def _only_child(node: Node) -> Node | None:
    """Return the operand that has a graph, if exactly one of the two operands has one."""
    children = [child for child, _ in node.next_functions if child is not None]
    return children[0] if len(children) == 1 and len(node.next_functions) == 2 else None
