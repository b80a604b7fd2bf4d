"""Advice on the operation that made a loss NaN or infinite."""

from __future__ import annotations

from mothtrap.core.facts.nonfinite import FirstBadOperation

_POSITIVE = "Keep what `{name}` is given above 0: clip it, e.g. at 1e-8"
_ONE_VALUE = (
    "Give `{name}` two values or more: one value has no spread. Drop a last batch of one row "
    "(`drop_last=True`), or normalize only where there are several values."
)
_OVERFLOW = (
    "Compute `{name}` in float32: {type} ends at {limit}. Convert its operands with `.float()`, "
    "or leave `autocast` for this line."
)
_LIMITS = {"float16": "65,504", "bfloat16": "3.4e+38"}
_INFINITE_DERIVATIVE = (
    "Add a small number to what `{name}` is given, e.g. 1e-12: its derivative at 0 is infinite."
)
_AT_ONE = "Keep what `{name}` is given inside -1 to 1: clip it, e.g. at 1 - 1e-6."
_ADVICE = {
    "log": f"{_POSITIVE}.",
    "log2": f"{_POSITIVE}.",
    "log10": f"{_POSITIVE}.",
    "log1p": "Keep what `{name}` is given above -1: clip it, e.g. at -1 + 1e-6.",
    "sqrt": f"{_POSITIVE}, so that its derivative is finite, too.",
    "rsqrt": f"{_POSITIVE}.",
    "reciprocal": "Keep what `{name}` is given away from 0: add a small number.",
    "div": "Keep the divisor away from 0: add a small number, or clamp it.",
    "ctc_loss": (
        "Drop rows with fewer frames than labels, shrink the time axis less, or pass "
        "`zero_infinity=True` to the CTC loss: such a row has no alignment."
    ),
    "cross_entropy": "See that a row counts: the mean over rows that are all ignored is NaN.",
    "scaled_dot_product_attention": (
        "Leave one place of each row unmasked: a row of -inf has no softmax."
    ),
    "pow": "Keep the base of `{name}` above 0 where the exponent is negative or no whole number.",
    "exp": "Keep what `{name}` is given small: subtract its maximum, or use `logsumexp`.",
    "acos": _AT_ONE,
    "asin": _AT_ONE,
    "atanh": _AT_ONE,
    "mean": "See that there is something to average: the mean of no values is NaN.",
    "std": _ONE_VALUE,
    "var": _ONE_VALUE,
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
    if seen.overflowed:
        limit = _LIMITS.get(seen.overflowed, "a smaller number")
        return _OVERFLOW.format(name=seen.operation, type=seen.overflowed, limit=limit)
    if seen.backward and name not in ("acos", "asin"):
        return _INFINITE_DERIVATIVE.format(name=seen.operation)
    found = _ADVICE_BY_SOURCE.get((name, seen.source)) or _ADVICE.get(name, "")
    return found.format(name=seen.operation)
