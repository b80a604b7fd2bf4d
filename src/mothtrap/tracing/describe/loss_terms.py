"""Find the terms of a loss in the operations that computed it.

Adapters translate the operations of their framework to these names:

- `add`, `sub`, `neg`, `mul`, `div`, `abs`, `square`, `exp`, `log`, `softmax`, `log_softmax`: the
  operation with this name;
- `sum`: a sum or mean over axes;
- `view`: a reshape, cast, or other operation that keeps the values;
- `gather`: a selection of some of the values;
- `select`: the larger or smaller of two values;
- `stopped`: the value without its gradient;
- `cross_entropy`: the negative log probability of a label;
- `one_hot`: one-hot labels;
- `noise`: normal random numbers;
- `layer`: a product with weights, which are the second input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

MOST_TERMS: Final = 256
"""Maximum number of sums and products between a loss and its terms."""
MOST_OPERATIONS: Final = 4096
"""Maximum number of operations among which the noise of a latent code is searched."""
MOST_VIEWS: Final = 12
"""Maximum number of consecutive operations, such as views, between a value and its source."""
VARIANCE, LOG_VARIANCE = "variance", "log variance"
_LOG_PROBABILITIES: Final = ("log_softmax", "one_hot")
_LINEAR: Final = frozenset({"add", "sub", "neg", "sum", "view"})
_VIEWS: Final = frozenset({"view"})
_REDUCTIONS: Final = frozenset({"view", "gather", "sum"})


class Operations(Protocol):
    """The operations that computed values."""

    def of(self, value: Any) -> tuple[str, Sequence[Any]]:
        """Return the name of the operation, and its inputs without axes and shapes."""

    def key(self, value: Any) -> Hashable:
        """Return the identity of a value."""

    def shape(self, value: Any) -> tuple[int | None, ...] | None:
        """Return the shape, None for an unknown size; None if even the rank is unknown."""

    def number(self, value: Any) -> float | None:
        """Return the value of a constant with a single element; None for other values."""


@dataclass(frozen=True, slots=True)
class Code:
    """Mean and log variance of a latent code whose KL divergence is in a loss."""

    mean: Any
    log_variance: Any


@dataclass(frozen=True, slots=True)
class Scores:
    """Predictions whose negative mean at the labels is a loss.

    Attributes:
        kind: `linear` for the output of a layer, `softmax` for probabilities.
        values: the predictions.
        labels: the one-hot labels by which the predictions are multiplied; None if labels select
            the predictions by index.
    """

    kind: str
    values: Any
    labels: Any = None


class LossTerms:
    """Finds the terms of one loss.

    Args:
        operations: the operations that computed the loss.
        loss: the loss.
    """

    def __init__(self, operations: Operations, loss: Any) -> None:
        self._operations, self._loss = operations, loss

    def code(self) -> Code | None:
        """Return the latent code of a variational autoencoder; None without a KL divergence.

        The divergence from a standard normal distribution is a sum of
        1 + log_var - mean**2 - exp(log_var), in any order. If it is written as a difference of two
        log densities, the loss contains log_var + (code - mean)**2 * exp(-log_var).
        """
        terms = list(self._terms())
        known = {self._key(term) for term in terms}
        squared, exponents = [], []
        for term in terms:
            name, inputs = self._operation(term)
            if name == "square":
                squared.append(inputs[0])
            elif name == "exp":
                exponents.append(inputs[0])
            elif name == "mul":
                found = self._code_of_density(inputs, known)
                if found is not None:
                    return found
        logs = [(one, self._log_of(one, terms)) for one in squared]
        deviations = [one for one, log in logs if log is not None]
        for log_variance in exponents + [log for _, log in logs if log is not None]:
            if self._key(log_variance) not in known or not self._is_array(log_variance):
                continue
            for mean in squared:
                no_mean = (log_variance, *deviations)
                is_mean = not any(self._same(mean, one) for one in no_mean)
                is_mean = is_mean and self._operation(mean)[0] != "exp"
                if is_mean and self._is_alike(mean, log_variance):
                    return Code(mean, log_variance)
        return None

    def _log_of(self, deviation: Any, terms: Sequence[Any]) -> Any:
        """Return the term log(deviation) or log(deviation**2) of a squared value; None if absent.

        A value with this term is a standard deviation.
        """
        for term in terms:
            name, inputs = self._operation(term)
            if name != "log":
                continue
            inner_name, inner = self._operation(inputs[0])
            if self._same(inner[0] if inner_name == "square" else inputs[0], deviation):
                return term
        return None

    def noise_of(self, code: Code) -> str | None:
        """Return the wrong factor of a code's noise; None if the factor is right or unknown."""
        log_variance = self._key(code.log_variance)
        found = set()
        for value in self._every():
            name, inputs = self._operation(value)
            if name != "mul" or len(inputs) != 2:
                continue
            for factor, other in (inputs, inputs[::-1]):
                if self._operations.number(factor) is None and self._is_noise(other):
                    found.add(self._wrong_factor(factor, log_variance))
        return found.pop() if len(found) == 1 else None

    def policy_signs(self) -> set[bool | None]:
        """Return the signs of the weighted log probabilities in the loss.

        Returns:
            True if one is subtracted, False if one is added, None if a sign is unknown.
        """
        signs: set[bool | None] = set()
        for value, negated in self._signed():
            name, inputs = self._operation(value)
            if name != "mul" or len(inputs) != 2:
                continue
            for one, weight in (inputs, inputs[::-1]):
                sign = self._log_probability(one)
                if sign is not None and self._is_weight(weight, one):
                    signs.add(None if negated is None else negated != sign)
                    break
        return signs

    def value_signs(self, is_foreign: Callable[[Any], bool]) -> set[bool | None]:
        """Return the signs of the outputs of networks that the loss does not train.

        Args:
            is_foreign: returns whether the loss does not train the weights of a layer.

        Returns:
            True if an output is subtracted, False if it is added, None if a sign is unknown.
        """
        signs: set[bool | None] = set()
        for value, negated in self._signed():
            name, inputs = self._operation(value)
            if name == "layer" and len(inputs) > 1 and is_foreign(inputs[1]):
                signs.add(negated)
        return signs

    def scores(self) -> Scores | None:
        """Return the predictions whose negative mean at the labels is the whole loss.

        Such a loss expects log probabilities. None for all other losses.
        """
        found: list[Scores] = []
        for value, negated in self._signed():
            name, inputs = self._operation(value)
            if name in ("abs", "square", "exp", "log", "select", "cross_entropy"):
                return None
            if name == "gather":
                kind = self._kind_of_scores(inputs[0])
                found += [Scores(kind, inputs[0])] if kind and negated else []
            elif name == "mul" and len(inputs) == 2 and all(map(self._is_array, inputs)):
                kinds = [self._kind_of_scores(one) for one in inputs]
                if sorted(kinds) != ["", "linear"] or not negated:
                    return None
                place = kinds.index("linear")
                found.append(Scores("linear", inputs[place], inputs[1 - place]))
        return found[0] if len(found) == 1 else None

    def label_signs(self) -> set[bool | None]:
        """Return the signs of the log probabilities of labels; none if the loss has other terms.

        Returns:
            True if they are subtracted, False if they are added, None if the sign is unknown.
        """
        signs: set[bool | None] = set()
        for value, negated in self._signed():
            name, inputs = self._operation(value)
            if name == "gather":
                found = [self._log_probability(inputs[0])]
            elif name == "mul" and len(inputs) == 2:
                if any(self._operations.number(one) is not None for one in inputs):
                    continue
                pairs = (inputs, inputs[::-1])
                found = [self._log_probability(one) for one, hot in pairs if self._is_hot(hot)]
            elif name in _LINEAR - {"add", "sub"}:
                continue
            else:
                found = [None] if name not in _LOG_PROBABILITIES else []
            if found == [None] or len(found) > 1 or (name == "mul" and not found):
                return set()
            signs |= {None if negated is None else negated != sign for sign in found}
        return signs

    def _is_hot(self, value: Any) -> bool:
        return self._operation(self._before(value))[0] == "one_hot"

    def _kind_of_scores(self, value: Any) -> str:
        """Return `linear` for the output of a layer, `softmax` for probabilities, otherwise ""."""
        if not self._is_array(value):
            return ""
        for _ in range(MOST_VIEWS):
            name, inputs = self._operation(value)
            if name == "add":
                names = [self._operation(self._before(one, _VIEWS))[0] for one in inputs]
                name = "layer" if "layer" in names else ""
            if name != "view":
                return {"layer": "linear", "softmax": "softmax"}.get(name, "")
            value = inputs[0]
        return ""

    def _code_of_density(self, factors: Sequence[Any], known: set[Hashable]) -> Code | None:
        """Return the code of a product (code - mean)**2 * exp(-log_var); None for others."""
        for one, other in (factors, factors[::-1]):
            square, squared = self._operation(one)
            name, inside = self._operation(other)
            if square != "square" or name != "exp":
                continue
            sign, negative = self._operation(inside[0])
            minus, sides = self._operation(squared[0])
            if sign != "neg" or minus != "sub" or self._key(negative[0]) not in known:
                continue
            name, parts = self._operation(sides[0])
            is_sample = name == "add" and any(self._same(part, sides[1]) for part in parts)
            if is_sample and self._is_alike(sides[1], negative[0]):
                return Code(sides[1], negative[0])
        return None

    def _terms(self) -> Iterator[Any]:
        """Yield the loss, its terms, and the terms of these terms, nearest first."""
        waiting, seen = deque([self._loss]), set[Hashable]()
        while waiting and len(seen) < MOST_TERMS:
            value = waiting.popleft()
            if self._key(value) in seen:
                continue
            seen.add(self._key(value))
            yield value
            name, inputs = self._operation(value)
            if name in _LINEAR:
                waiting += inputs
            elif name in ("mul", "div"):
                waiting += [one for one in inputs if self._has_scalar_factors(inputs, one)]

    def _has_scalar_factors(self, inputs: Sequence[Any], one: Any) -> bool:
        """Return whether all factors of a product except `one` are single numbers."""
        others = [other for other in inputs if other is not one]
        return all(self._rank(other) == 0 for other in others)

    def _signed(self) -> Iterator[tuple[Any, bool | None]]:
        """Yield the terms of the loss, each with whether it is subtracted; None if unknown."""
        waiting: deque[tuple[Any, bool | None]] = deque([(self._loss, False)])
        seen = set[Hashable]()
        while waiting and len(seen) < MOST_TERMS:
            value, negated = waiting.popleft()
            if self._key(value) in seen:
                continue
            seen.add(self._key(value))
            yield value, negated
            name, inputs = self._operation(value)
            if name in ("sub", "neg"):
                minus = negated if negated is None else not negated
                signs = [minus] if name == "neg" else [negated, minus]
                waiting += zip(inputs, signs, strict=False)
            elif name in _LINEAR or name in ("select", "gather"):
                waiting += [(one, negated) for one in inputs]
            elif name in ("mul", "div"):
                waiting += self._scaled(inputs, negated)

    def _scaled(
        self, inputs: Sequence[Any], negated: bool | None
    ) -> Iterator[tuple[Any, bool | None]]:
        """Yield each factor whose other factors are constants, with its sign in the loss."""
        for one in inputs:
            numbers = [self._operations.number(other) for other in inputs if other is not one]
            if numbers and all(number is not None for number in numbers):
                is_negative = sum(number < 0 for number in numbers if number is not None) % 2 == 1
                yield one, negated if negated is None else negated != is_negative

    def _log_probability(self, value: Any) -> bool | None:
        """Return False for a log probability, True for its negative, None for other values.

        The ratio of two probabilities counts as a log probability.
        """
        negated = False
        for _ in range(MOST_VIEWS):
            name, inputs = self._operation(value)
            if name == "log" and self._operation(self._before(inputs[0]))[0] == "softmax":
                return negated
            if name == "log_softmax":
                return negated
            if name == "cross_entropy":
                return not negated
            if name == "sub" and self._is_normalizer(inputs[0]):
                return not negated
            if name == "sub" and self._is_normalizer(inputs[1]):
                return negated
            if name == "exp" and self._operation(self._before(inputs[0]))[0] == "sub":
                now = self._operation(self._before(inputs[0]))[1][0]
                return self._log_probability(now)
            if name == "mul" and len(inputs) == 2:  # one-hot actions
                arrays = [one for one in inputs if self._operation(one)[0] not in ("", "one_hot")]
                if len(arrays) != 1:
                    return None
                value = arrays[0]
                continue
            if name not in ("view", "gather", "sum", "neg", "select"):
                return None
            negated = negated != (name == "neg")
            value = inputs[0]
        return None

    def _is_normalizer(self, value: Any) -> bool:
        """Return whether a value is log(sum(exp(logits)))."""
        name, inputs = self._operation(self._before(value))
        if name == "add":
            return any(self._is_normalizer(one) for one in inputs)
        if name != "log":
            return False
        name, inputs = self._operation(self._before(inputs[0]))
        if name == "abs":  # JAX's logsumexp takes the absolute value, because weights are allowed
            name, _ = self._operation(self._before(inputs[0]))
        return name == "exp"

    def _before(self, value: Any, names: frozenset[str] = _REDUCTIONS) -> Any:
        """Return the value to which consecutive operations with these names were applied."""
        for _ in range(MOST_VIEWS):
            name, inputs = self._operation(value)
            if name not in names:
                break
            value = inputs[0]
        return value

    def _is_weight(self, weight: Any, log_probability: Any) -> bool:
        """Return whether a factor of a log probability may be a return or an advantage.

        In an entropy, the factor is a probability. A single number that multiplies several log
        probabilities is a coefficient.
        """
        if self._operations.number(weight) is not None:
            return False
        if self._rank(weight) == 0 and self._rank(log_probability) != 0:
            return False
        name = self._operation(self._before(weight))[0]
        return name not in ("softmax", "exp", "one_hot") and self._log_probability(weight) is None

    def _every(self) -> Iterator[Any]:
        """Yield all values on which the loss depends, nearest first."""
        waiting, seen = deque([self._loss]), set[Hashable]()
        while waiting and len(seen) < MOST_OPERATIONS:
            value = waiting.popleft()
            if self._key(value) in seen:
                continue
            seen.add(self._key(value))
            yield value
            waiting += self._operation(value)[1]

    def _is_noise(self, value: Any) -> bool:
        """Return whether a value is random, possibly scaled and shifted by constants."""
        if not self._rank(value):
            return False
        for _ in range(MOST_VIEWS):
            name, inputs = self._operation(value)
            if name == "noise":
                return True
            if name not in ("view", "mul", "add", "sub"):
                return False
            varying = [one for one in inputs if self._operations.number(one) is None]
            if len(varying) != 1:
                return False
            value = varying[0]
        return False

    def _wrong_factor(self, factor: Any, log_variance: Hashable) -> str | None:
        """Return `variance` or `log variance` if a factor of the noise is one; None for others."""
        exponential, scale = False, 1.0
        for _ in range(MOST_VIEWS):
            if self._key(factor) == log_variance:
                return (VARIANCE if exponential else LOG_VARIANCE) if scale == 1.0 else None
            name, inputs = self._operation(factor)
            if name == "exp" and not exponential and scale == 1.0:
                exponential, factor = True, inputs[0]
            elif name == "view":
                factor = inputs[0]
            elif name == "mul" and len(inputs) == 2:
                numbers = [self._operations.number(one) for one in inputs]
                if numbers.count(None) != 1:
                    return None
                scale *= next(number for number in numbers if number is not None)
                factor = inputs[numbers.index(None)]
            else:
                return None
        return None

    def _rank(self, value: Any) -> int | None:
        shape = self._operations.shape(value)
        return None if shape is None else len(shape)

    def _is_array(self, value: Any) -> bool:
        return (self._rank(value) or 0) > 1

    def _is_alike(self, one: Any, other: Any) -> bool:
        is_equal = self._operations.shape(one) == self._operations.shape(other)
        return self._is_array(one) and is_equal

    def _same(self, one: Any, other: Any) -> bool:
        return self._key(one) == self._key(other)

    def _operation(self, value: Any) -> tuple[str, Sequence[Any]]:
        return self._operations.of(value)

    def _key(self, value: Any) -> Hashable:
        return self._operations.key(value)
