"""Advice on the operation that made a loss NaN or infinite."""

from __future__ import annotations

from mothtrap.core.facts.nonfinite import FirstBadOperation

_POSITIVE = "Keep what `{name}` is given above 0: clip it, e.g. at 1e-8"
_ADVICE = {
    "log": f"{_POSITIVE}.",
    "log2": f"{_POSITIVE}.",
    "log10": f"{_POSITIVE}.",
    "log1p": "Keep what `{name}` is given above -1: clip it, e.g. at -1 + 1e-6.",
    "sqrt": f"{_POSITIVE}, so that its derivative is finite, too.",
    "rsqrt": f"{_POSITIVE}.",
    "reciprocal": "Keep what `{name}` is given away from 0: add a small number.",
    "div": "Keep the divisor away from 0: add a small number, or clamp it.",
    "pow": "Keep the base of `{name}` above 0 where the exponent is negative or no whole number.",
    "exp": "Keep what `{name}` is given small: subtract its maximum, or use `logsumexp`.",
    "acos": "Keep what `{name}` is given inside -1 to 1: clip it, e.g. at 1 - 1e-6.",
    "asin": "Keep what `{name}` is given inside -1 to 1: clip it, e.g. at 1 - 1e-6.",
    "atanh": "Keep what `{name}` is given inside -1 to 1: clip it, e.g. at 1 - 1e-6.",
    "mean": "See that there is something to average: the mean of no values is NaN.",
    "std": "Give `{name}` two values or more, or `correction=0`: one value has no spread.",
    "var": "Give `{name}` two values or more, or `correction=0`: one value has no spread.",
    "softmax": "Leave one place of each row unmasked: a row of -inf has no softmax.",
    "log_softmax": "Leave one place of each row unmasked: a row of -inf has no softmax.",
    "logsumexp": "Leave one value of each row finite: a row of -inf has no sum.",
    "nll_loss": "See that a row counts: the mean over rows that are all ignored is NaN.",
    "linear": "Look at the sizes above: normalize the inputs of this layer, or scale its weights.",
}
"""By the name of the operation without its library."""
_ADVICE_BY_SOURCE = {
    ("log", "relu"): (
        "A ReLU made the input of `{name}`, and gives exact zeros: take `softplus` in its "
        "place, or let the network predict the logarithm. Clipping would only hide it."
    ),
    ("log", "softmax"): "Take `log_softmax` of the scores, not `{name}` of their softmax.",
    ("log", "sigmoid"): "Take `logsigmoid` of the scores, not `{name}` of their sigmoid.",
    ("sqrt", "relu"): (
        "A ReLU made the input of `{name}`, and gives exact zeros: take `softplus` in its place."
    ),
}
"""By operation, and the one that made its input."""
_SAME = {
    "log_1p": "log1p",
    "true_divide": "div",
    "divide": "div",
    "integer_pow": "pow",
    "arccos": "acos",
    "arcsin": "asin",
    "addmm": "linear",
    "mm": "linear",
    "matmul": "linear",
    "bmm": "linear",
    "dot_general": "linear",
    "exp2": "exp",
}


def advice_on(seen: FirstBadOperation) -> str:
    """Return what to do about an operation; '' where it is not known well enough."""
    if seen.since is not None:
        return ""
    name = seen.operation.rpartition(".")[2].lower()
    name = _SAME.get(name, name)
    found = _ADVICE_BY_SOURCE.get((name, seen.source)) or _ADVICE.get(name, "")
    return found.format(name=seen.operation)
