"""Losses of pairs, such as word2vec's: log-sigmoids of the products of two vectors."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.job import graph
from mothtrap.adapters.torch.job.graph import Node, operation, output_shape
from mothtrap.adapters.torch.losses.line_looks import Line, LineObserver
from mothtrap.adapters.torch.losses.overlaps import signs_of
from mothtrap.core.facts.pairs import OneSidedPairs, ScoresSummed

if TYPE_CHECKING:
    from mothtrap.adapters.torch.job.job import Job

MAX_SIGNS = 4
"""Maximum number of views and sign changes between a sigmoid and its product. Chosen by hand."""
PRODUCTS = frozenset({"linear", "sum", "dot"})
"""Operations that end the score of a pair; a matrix product is called linear."""


@dataclass(slots=True)
class _Line(Line):
    """Backward passes of one line, and the number of inspected ones with a fault.

    `together` and `apart` have one sign only; in `summed`, `scores` scores are summed.
    """

    together: int = 0
    apart: int = 0
    summed: int = 0
    scores: int = 0


class PairScoreObserver(LineObserver[_Line]):
    """Detects a loss that pulls all pairs together, or pushes all apart, or sums their scores."""

    def __init__(self, job: Job) -> None:
        super().__init__(job, _Line)

    def _inspect(self, line: _Line, root: Node, place: str | None) -> None:
        line.looks += 1
        signs = list(_signs(root))
        line.together += len(signs) > 1 and set(signs) == {True}
        line.apart += len(signs) > 1 and set(signs) == {False}
        scores = set(_summed_scores(root))
        if len(scores) == 2 and 1 in scores:
            line.summed, line.scores = line.summed + 1, max(scores)
        if line.is_complete and line.summed:
            self._job.recorder.notes.observe(
                ScoresSummed(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    found=line.summed,
                    scores=line.scores,
                    location=place,
                )
            )
        if line.is_complete and line.looks in (line.together, line.apart):
            self._job.recorder.notes.observe(
                OneSidedPairs(
                    step=self._job.grouper.step,
                    looks=line.looks,
                    terms=len(signs),
                    together=bool(line.together),
                    location=place,
                )
            )


def _signs(root: Node) -> Iterator[bool | None]:
    """Yield whether each term of a loss raises the score of its pairs; None for another term."""
    waiting: deque[tuple[Node, bool | None]] = deque([(root, False)])
    seen = {root}
    while waiting and len(seen) <= graph.MAX_HEAD_NODES:
        node, negated = waiting.popleft()
        score = _score(node)
        if score is not None:
            raised = _raised(score)
            yield None if negated is None or raised is None else raised is negated
            continue
        if node is not root and graph.through_views(node) is node and not graph.is_arithmetic(node):
            yield None
            continue
        for place, (child, _) in enumerate(node.next_functions):
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append((child, graph.sign_through(negated, operation(node), place)))


def _summed_scores(root: Node) -> Iterator[int]:
    """Yield, for each log-sigmoid of matrix products, how many of them are summed before it."""
    found: list[int] = []

    def is_score(node: Node) -> bool:
        behind = _unsigned(_score(node))
        if behind is None:
            return False
        product = _unsigned(behind.next_functions[0][0]) if operation(behind) == "sum" else behind
        if product is None or operation(product) != "linear":
            return True
        sizes = [math.prod(output_shape(one) or ()) for one in (product, behind)]
        found.append(sizes[0] // max(1, sizes[1]))
        return True

    list(signs_of(root, is_score))
    yield from found


def _unsigned(node: Node | None) -> Node | None:
    """Return the operation behind views and sign changes."""
    for _ in range(MAX_SIGNS):
        node = graph.through_views(node)
        if node is None or operation(node) != "neg":
            break
        node = node.next_functions[0][0]
    return node


def _score(node: Node) -> Node | None:
    """Return the input of a log-sigmoid."""
    name = operation(node)
    if name.startswith("log_sigmoid"):
        return node.next_functions[0][0]
    behind = graph.through_views(node.next_functions[0][0]) if name == "log" else None
    if behind is None or operation(behind) != "sigmoid":
        return None
    return behind.next_functions[0][0]


def _raised(score: Node | None) -> bool | None:
    """Return whether a score is the product of two vectors, and False if it is its negative."""
    raised = True
    for _ in range(MAX_SIGNS):
        score = graph.through_views(score)
        name = operation(score) if score is not None else ""
        if name in PRODUCTS:
            break
        if name != "neg" or score is None:
            return None
        raised, score = not raised, score.next_functions[0][0]
    else:
        return None
    for factor in _factors(score):
        raised ^= operation(factor) == "neg"
    return raised


def _factors(product: Node) -> Iterator[Node]:
    """Yield the two vectors of a product, without views."""
    if operation(product) == "sum":
        product = graph.through_views(product.next_functions[0][0])
    for child, _ in product.next_functions if product is not None else ():
        factor = graph.through_views(child)
        if factor is not None:
            yield factor
