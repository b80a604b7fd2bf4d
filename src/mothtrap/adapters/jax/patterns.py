"""Patterns among the operations of a loss: trained targets, mixed axes, masks, codes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jax

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.internals import Caller
from mothtrap.adapters.jax.loss_terms import Terms, TracedOperations, terms_of
from mothtrap.adapters.jax.made import Made
from mothtrap.adapters.jax.slopes import Flat, Slopes
from mothtrap.tracing.describe.loss_terms import LossTerms
from mothtrap.tracing.describe.mixed_axes import mixes

LAYERS: Final = ("dot_general", "conv_general_dilated")
ADDING: Final = frozenset({"add", "sub", "add_any", "neg"})
SCALING: Final = frozenset({"mul", "div"})
NO_LABEL: Final = -2
"""Label of a row that is 0 for each class; other rows that are not one-hot have the label -1."""
MOST_TERMS: Final = 24
MOST_SIGHTS: Final = 4
MOST_MASKS: Final = 4


@dataclass(slots=True)
class Found:
    """Static findings of a loss, and the values to inspect.

    Attributes:
        trained_targets: lines of differences whose target has a gradient.
        bootstrapped: lines of differences whose target contains a prediction.
        mixed: reshapes that exchange axes: shape before, shape after, line.
        masks: lines of the masks added to the scores of an attention.
        codes: lines of the divergences of a code from its prior.
        chosen_from: shapes of the predictions among which integers choose.
        sights: lines of self-attention operations.
        terms: terms of the loss; None until its last operation.
        flat: operation without a slope through which the loss gets all of the weights.
    """

    trained_targets: list[str | None] = field(default_factory=list)
    bootstrapped: list[str | None] = field(default_factory=list)
    mixed: list[tuple[tuple[int, ...], tuple[int, ...], str | None]] = field(default_factory=list)
    masks: list[str | None] = field(default_factory=list)
    codes: list[str | None] = field(default_factory=list)
    chosen_from: list[tuple[int, ...]] = field(default_factory=list)
    sights: list[str | None] = field(default_factory=list)
    terms: Terms | None = None
    flat: Flat | None = None


class Patterns:
    """Searches for patterns while a shadow is traced.

    Args:
        made: the operations so far.

    Attributes:
        found: findings so far.
        masks: values of the masks, in the order of `found.masks`.
        codes: mean and logarithm of the variance of each code, in the order of `found.codes`.
        tokens: integers with which rows of weights are looked up.
        chosen: integers that choose among predictions: labels.
        counted: whether losses of single positions count, or are multiplied by 0.
        sights: largest weight of each key for each query, shape (queries, keys), of the first
            self-attention operations.
    """

    def __init__(self, made: Made) -> None:
        self._made, self.found = made, Found()
        self.masks: list[Any] = []
        self.codes: list[Any] = []
        self.tokens: list[Any] = []
        self.chosen: list[Any] = []
        self.counted: list[Any] = []
        self.sights: list[Any] = []
        self._carrying: set[int] = set()
        self._kept: list[Any] = []
        self._predicted: set[int] = set()
        self._weights: list[Any] = []
        self._slopes = Slopes()

    def differentiated(self, leaves: Sequence[Any]) -> None:
        """Record the arrays with respect to which gradients are computed."""
        self._weights += leaves
        self._carrying |= {id(leaf) for leaf in leaves}

    def carried(self, name: str, values: Sequence[Any], results: Sequence[Any]) -> None:
        """Record the results of an operation, such as a loop, that depend on weights."""
        if name != "stop_gradient" and any(id(value) in self._carrying for value in values):
            real = [one for one in results if jax.numpy.issubdtype(one.dtype, jax.numpy.floating)]
            self._carrying |= {id(one) for one in real}
            self._kept += real[1:]

    def operation(self, eqn: Any, caller: Caller, values: Sequence[Any], result: Any) -> None:
        """Process an operation that was recorded in `made`."""
        name = eqn.primitive.name
        self._slopes.operation(eqn, caller, values, result, self._carrying)
        self.carried(name, values, [result])
        if name in LAYERS or any(id(value) in self._predicted for value in values):
            self._predicted.add(id(result))
        if name in ("square", "integer_pow", "abs"):
            self._look_for_target(caller, values[0])
        elif name == "exp":
            self._look_for_mask(caller, values[0])
        elif name == "gather":
            self._look_at_indices(*values[:2])
        elif name == "div":
            self._look_for_attention(caller, eqn, values, result)
        elif name == "reduce_sum":
            self._look_for_code(eqn, caller, values[0])

    def ended(self, loss: Any) -> None:
        """Read the terms of a loss whose operations are all recorded."""
        terms = LossTerms(TracedOperations(self._made), loss)
        self.found.terms = terms_of(terms, self.has_gradient)
        self.found.flat = self._slopes.before(loss)
        scores = terms.scores()
        if scores is not None and scores.labels is not None:
            pair = scores.values, scores.labels
            self.look_for_labels("mul", pair, scores.values, [scores.values])

    def has_gradient(self, value: Any) -> bool:
        """Return whether a value depends on weights through a differentiable path."""
        return id(value) in self._carrying

    def look_at_prediction(self, value: Any) -> None:
        """Search for a reshape in a loss that mixes axes instead of transposing them."""
        for eqn, given, became in self._made.arranged(value):
            before, after = tuple(given.shape), tuple(became.shape)
            if eqn.primitive.name == "reshape" and mixes(before, after):
                self.found.mixed.append((before, after, internals.line_of_equation(eqn)))

    def _look_for_target(self, caller: Caller, difference: Any) -> None:
        """Recognize (prediction - (reward + discount * prediction of later))**2."""
        eqn, sides = self._made.of(self._made.source(difference))
        if eqn is None or eqn.primitive.name != "sub" or not any(map(self.has_gradient, sides)):
            return
        targets = [side for side in sides if self._is_bootstrapped(side)]
        if len(targets) != 1:
            return
        line = internals.line_of_equation(eqn, caller)
        self.found.bootstrapped.append(line)
        if all(map(self.has_gradient, sides)):
            self.found.trained_targets.append(line)

    def _is_bootstrapped(self, value: Any) -> bool:
        """Return whether a value is data plus a discounted prediction."""
        terms = self._parts(value, "add")
        later = [term for term in terms if id(term) in self._predicted]
        rewards = [term for term in terms if id(term) not in self._predicted]
        if len(later) != 1 or len(rewards) != 1 or not getattr(rewards[0], "ndim", 0):
            return False
        factors = self._parts(later[0], "mul")
        return sum(id(factor) in self._predicted for factor in factors) == 1

    def _parts(self, value: Any, operation: str) -> Sequence[Any]:
        """Return the inputs of an operation if it computed a value; otherwise ()."""
        eqn, inputs = self._made.of(self._made.source(value))
        return inputs if eqn is not None and eqn.primitive.name == operation else ()

    def _look_for_mask(self, caller: Caller, shifted: Any) -> None:
        """Recognize softmax(scores + mask), where the mask does not depend on weights."""
        if self._made.operation(shifted) != "sub":
            return
        scores = self._made.source(self._made.of(shifted)[1][0])
        eqn, terms = self._made.of(scores)
        if eqn is None or eqn.primitive.name != "add" or getattr(scores, "ndim", 0) < 3:
            return
        masks = [term for term in terms if not self.has_gradient(term)]
        if len(masks) != 1 or not getattr(masks[0], "ndim", 0):
            return
        self.found.masks.append(internals.line_of_equation(eqn, caller))
        self.masks.append(self._before_broadcast(masks[0]))

    def _look_at_indices(self, taken_from: Any, indices: Any) -> None:
        """Record the tokens of an embedding, or the labels that select predictions."""
        if not self.has_gradient(taken_from) or getattr(indices, "ndim", 0) < 2:
            return
        # In `scores[arange(n), labels]`, the last number of each index is the label. An index along
        # some axes, such as the last position of each row, chooses no label.
        is_whole = id(taken_from) in self._predicted and indices.shape[-1] == taken_from.ndim == 2
        if indices.shape[-1] != 1 and not is_whole:
            return
        integers = indices[..., -1]
        if id(taken_from) not in self._predicted:
            if taken_from.ndim == 2:
                self.tokens.append(integers)
            return
        last = integers.ndim and integers.shape[-1] == 1
        labels = integers.reshape(integers.shape[:-1]) if last else integers
        self.chose(labels, tuple(taken_from.shape))

    def chose(self, labels: Any, shape: tuple[int, ...]) -> None:
        """Record labels, and the shape of the predictions among which they choose."""
        self.chosen.append(labels)
        self.found.chosen_from.append(shape)

    def look_for_labels(
        self, name: str, values: Sequence[Any], result: Any, logits: Sequence[Any]
    ) -> None:
        """Recognize one-hot labels, and weights of positions, with which losses are multiplied."""
        *chosen_by, first, second = values
        carries = [self.has_gradient(one) for one in (first, second)]
        if sum(carries) != 1 or len(chosen_by) > 1:
            return
        data, shape = (second if carries[0] else first), tuple(result.shape)
        if name == "select_n":
            data = chosen_by[0] if carries[1] else jax.numpy.logical_not(chosen_by[0])
        if tuple(data.shape) != shape or data.dtype == jax.dtypes.float0:
            return
        of = [tuple(one.shape) for one in logits]
        if name == "mul" and shape in of:
            size_RK = jax.numpy.abs(data)
            is_hot_R = (size_RK.max(-1) == 1) & ((size_RK != 0).sum(-1) == 1)
            other_R = jax.numpy.where((size_RK == 0).all(-1), NO_LABEL, -1)
            label_R = jax.numpy.where(is_hot_R, jax.numpy.argmax(size_RK, -1), other_R)
            self.chose(label_R, shape)
        elif shape in [one[:-1] for one in of] and len(self.counted) < MOST_MASKS:
            self.counted.append(data != 0)

    def _look_for_attention(
        self, caller: Caller, eqn: Any, values: Sequence[Any], result: Any
    ) -> None:
        """Recognize exp(scores) / sum(exp(scores)) in self-attention."""
        above, below = map(self._made.source, values)
        names = self._made.operation(above), self._made.operation(below)
        square = result.ndim > 2 and result.shape[-1] == result.shape[-2] > 1
        if names != ("exp", "reduce_sum") or not square or len(self.sights) >= MOST_SIGHTS:
            return
        self.sights.append(jax.numpy.max(result, axis=tuple(range(result.ndim - 2))))
        self.found.sights.append(internals.line_of_equation(eqn, caller))

    def _before_broadcast(self, value: Any) -> Any:
        while self._made.operation(value) == "broadcast_in_dim":
            value = self._made.of(value)[1][0]
        return value

    def _look_for_code(self, eqn: Any, caller: Caller, summed: Any) -> None:
        """Recognize the sum of 1 + log_var - mean**2 - exp(log_var), in any order.

        The logarithm of the deviation may be used instead of the logarithm of the variance.
        """
        terms = list(self._terms(summed))
        squares = [
            inputs[0]
            for name, inputs in map(self._named, terms)
            if name in ("square", "integer_pow") or (name == "mul" and inputs[0] is inputs[1])
        ]
        exponents = [inputs[0] for name, inputs in map(self._named, terms) if name == "exp"]
        deviations = [self._named(one)[1][0] for one in squares if self._named(one)[0] == "exp"]
        for log_var in (*exponents, *deviations):
            log = any(name == "log" for name, _ in map(self._named, terms))
            if not any(log_var is term for term in terms) and not log:
                continue
            for mean in squares:
                if (
                    mean is not log_var
                    and self._named(mean)[0] != "exp"
                    and mean.shape == log_var.shape
                    and mean.ndim > 1
                ):
                    self.found.codes.append(internals.line_of_equation(eqn, caller))
                    self.codes += [mean, log_var]
                    return

    def _named(self, value: Any) -> tuple[str, Sequence[Any]]:
        eqn, inputs = self._made.of(value)
        return (eqn.primitive.name if eqn is not None else ""), inputs

    def _terms(self, value: Any) -> Iterator[Any]:
        """Yield a sum, its terms, and the terms of these, nearest first."""
        waiting, count = deque([value]), 0
        while waiting and count < MOST_TERMS:
            value = waiting.popleft()
            count += 1
            yield value
            name, inputs = self._named(value)
            if name in ADDING or name in ("convert_element_type", "broadcast_in_dim"):
                waiting += inputs
            elif name in SCALING and not all(getattr(one, "ndim", 0) for one in inputs):
                waiting += [one for one in inputs if getattr(one, "ndim", 0)]
