"""Advice on the operation that made a loss NaN or infinite."""

from __future__ import annotations

from mothtrap.core.facts.nonfinite import FirstBadOperation

_POSITIVE = "Keep the input of `{name}` above 0: clip it, e.g. at 1e-8"
_ONE_VALUE = (
    "Give `{name}` at least two values: a single value has no spread. Drop a last batch of one "
    "row (`drop_last=True`), or skip the normalization for a single value."
)
_OVERFLOW = (
    "Compute `{name}` in float32: {type} can represent values up to {limit}. Convert its "
    "operands with `.float()`, or switch off `autocast` for this line."
)
_LIMITS = {"float16": "65,504", "bfloat16": "3.4e+38"}
_INFINITE_DERIVATIVE = (
    "Add a small number to the input of `{name}`, e.g. 1e-12: its derivative at 0 is infinite."
)
_NORM = (
    "Write `{name}` as the root of a sum that is never 0, `sqrt((x ** 2).sum() + 1e-12)`: its "
    "derivative at 0 is not finite."
)
_AT_ONE = "Keep the input of `{name}` between -1 and 1: clip it, e.g. at 1 - 1e-6."
_ADVICE = {
    "log": f"{_POSITIVE}.",
    "log2": f"{_POSITIVE}.",
    "log10": f"{_POSITIVE}.",
    "log1p": "Keep the input of `{name}` above -1: clip it, e.g. at -1 + 1e-6.",
    "sqrt": f"{_POSITIVE}, so that its derivative is finite, too.",
    "rsqrt": f"{_POSITIVE}.",
    "reciprocal": "Keep the input of `{name}` away from 0: add a small number.",
    "div": "Keep the divisor away from 0: add a small number, or clamp it.",
    "ctc_loss": (
        "Rows with fewer frames than labels have no alignment: drop them, downsample the time "
        "axis less, or pass `zero_infinity=True` to the CTC loss."
    ),
    "cross_entropy": "Make sure that not all rows are ignored: the mean over no rows is NaN.",
    "scaled_dot_product_attention": (
        "Leave at least one position of each row unmasked: the softmax of a row of -inf is NaN."
    ),
    "pow": (
        "Keep the base of `{name}` above 0 where the exponent is negative or not a whole number."
    ),
    "exp": "Keep the input of `{name}` small: subtract its maximum, or use `logsumexp`.",
    "acos": _AT_ONE,
    "asin": _AT_ONE,
    "atanh": _AT_ONE,
    "mean": "Make sure that there is a value to average: the mean of no values is NaN.",
    "std": _ONE_VALUE,
    "var": _ONE_VALUE,
    "softmax": (
        "Leave at least one position of each row unmasked: the softmax of a row of -inf is NaN."
    ),
    "log_softmax": (
        "Leave at least one position of each row unmasked: the softmax of a row of -inf is NaN."
    ),
    "logsumexp": (
        "Keep at least one value of each row finite: `logsumexp` of a row of -inf is not finite."
    ),
    "nll_loss": "Make sure that not all rows are ignored: the mean over no rows is NaN.",
    "linear": "Look at the sizes above: normalize the inputs of this layer, or scale its weights.",
}
"""Advice by the name of the operation, without its library."""
_ADVICE_BY_SOURCE = {
    ("log", "relu"): (
        "The input of `{name}` comes from a ReLU, which returns exact zeros: use `softplus` "
        "instead, or let the network predict the logarithm. Clipping would only hide the problem."
    ),
    ("log", "softmax"): "Use `log_softmax` of the scores instead of `{name}` of their softmax.",
    ("log", "sigmoid"): "Use `logsigmoid` of the scores instead of `{name}` of their sigmoid.",
    ("sqrt", "relu"): (
        "The input of `{name}` comes from a ReLU, which returns exact zeros: use `softplus` "
        "instead."
    ),
}
"""Advice by operation, and by the operation that computed its input."""
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
    """Return advice for an operation; '' without certain advice."""
    if seen.since is not None:
        return ""
    name = seen.operation.rpartition(".")[2].lower()
    name = _SAME.get(name, name)
    if seen.overflowed:
        limit = _LIMITS.get(seen.overflowed, "a smaller number")
        return _OVERFLOW.format(name=seen.operation, type=seen.overflowed, limit=limit)
    if seen.backward and name not in ("acos", "asin"):
        words = _NORM if name == "norm" else _INFINITE_DERIVATIVE
        return words.format(name=seen.operation)
    found = _ADVICE_BY_SOURCE.get((name, seen.source)) or _ADVICE.get(name, "")
    return found.format(name=seen.operation)
