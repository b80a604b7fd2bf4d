"""Shadow of a step: a second executable that returns only the inspected values.

It runs before the step on the same inputs. The user's own executable is not changed, because
additional outputs would change how XLA fuses operations, and therefore the weights.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields
from typing import Any, Final

import jax

from mothtrap.adapters.jax import internals, programs
from mothtrap.adapters.jax.first_iterations import ObservedError, first_iterations
from mothtrap.adapters.jax.functions import Book, Differentiated
from mothtrap.adapters.jax.graph import Evaluation
from mothtrap.adapters.jax.internals import Caller
from mothtrap.adapters.jax.jitted import Jitted
from mothtrap.adapters.jax.made import ARRANGING, Made
from mothtrap.adapters.jax.patterns import Found, Patterns
from mothtrap.adapters.jax.programs import Program
from mothtrap.core.tensors import Role

MOST_LAYERS: Final = 256
"""Maximum number of inspected activations of a function: the first ones."""
RECTIFIERS: Final = frozenset({"relu", "relu6", "leaky_relu", "elu", "celu", "selu"})
LAYERS: Final = {"dot_general": "dot", "conv_general_dilated": "conv"}
SATURATING: Final = {"tanh": "tanh", "logistic": "sigmoid"}
BEFORE_CUTS: Final = frozenset(
    {*LAYERS, *SATURATING, "add", "mul", "custom_jvp_call", "custom_vjp_call", "jit"}
)
"""Last operations of layers. A softmax also subtracts its maximum, which does not change the
gradient.
"""
STATIC: Final = ("static_argnums", "static_argnames", "in_shardings", "device", "backend")
"""Options of `jax.jit` that a shadow takes over; it does not donate arguments."""
_SCOPE = re.compile(r"\w+\(([\w./]*)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """An activation of a step, with its source.

    Attributes:
        name: modules in which it was computed, otherwise its line.
        operation: `dot`, `conv`, `relu`, `tanh`, `sigmoid` ...
        role: effect of the operation on its input, if rules use it.
        gain: approximate factor by which a layer multiplies its inputs; None for others.
        fan_in: number of inputs of a unit.
        is_first: the layer receives data that no layer has produced.
    """

    name: str
    operation: str
    role: Role
    location: str | None
    fan_in: int = 0
    is_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax:
    """The softmax or sigmoid of a loss.

    Attributes:
        operation: as in `LossCall`.
        chain: operations that produced its logits, nearest first.
        axis: axis of the classes.
        location: the line.
    """

    operation: str
    chain: tuple[str, ...]
    axis: int
    location: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """A squared or absolute difference of a prediction and data, summed over all axes."""

    prediction_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    result_shape: tuple[int, ...]
    location: str | None


@dataclass(slots=True)
class Looks:
    """The results of a shadow: arrays, or tracers while it is being traced.

    Attributes:
        losses: the loss, as a list with one element.
        gradients: gradients in the order of `Shadow.names`.
        activations: activations in the order of `Shadow.activations`.
        scales: mean squares of the inputs and weights of the layers among these.
        data: inputs of the first layers.
        logits: logits in the order of `Shadow.softmaxes`.
        masks: masks in the order of `Found.masks`.
        codes: two arrays for each of `Found.codes`.
        outputs, targets: predictions and targets in the order of `Shadow.errors`.
        tokens, chosen, counted, sights: as in `Patterns`.
    """

    losses: list[Any] = field(default_factory=list)
    gradients: list[Any] = field(default_factory=list)
    activations: list[Any] = field(default_factory=list)
    scales: list[Any] = field(default_factory=list)
    data: list[Any] = field(default_factory=list)
    logits: list[Any] = field(default_factory=list)
    masks: list[Any] = field(default_factory=list)
    codes: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    targets: list[Any] = field(default_factory=list)
    tokens: list[Any] = field(default_factory=list)
    chosen: list[Any] = field(default_factory=list)
    sights: list[Any] = field(default_factory=list)
    counted: list[Any] = field(default_factory=list)


class Collector:
    """Receives the operations of a loss function while a shadow is traced.

    Attributes:
        infos: descriptions of the activations.
        softmaxes: softmaxes of losses.
        errors: differences from which losses are computed.
        patterns: patterns in the loss.
        cut: line of a `stop_gradient` in the user's code, and the layer after it.
        looks: collected observations.
    """

    def __init__(self) -> None:
        self.infos: list[Activation] = []
        self.errors: list[Elementwise] = []
        self.softmaxes: list[Softmax] = []
        self.cut: tuple[str | None, str] | None = None
        self.looks = Looks()
        self._stopped: str | None = None
        self._named: Counter[str] = Counter()
        self._made = Made()
        self.patterns = Patterns(self._made)
        for name in ("masks", "codes", "tokens", "chosen", "counted", "sights"):
            setattr(self.looks, name, getattr(self.patterns, name))
        self._data: set[int] = set()
        self._kept: list[Any] = []

    def given(self, values: Sequence[Any], weights: Sequence[Any]) -> None:
        """Record the arguments: those without gradients, usually batches, and others."""
        self.patterns.differentiated(weights)
        floats = [one for one in values if jax.numpy.issubdtype(one.dtype, jax.numpy.floating)]
        self._data |= {id(value) for value in floats if value.ndim}
        self._kept += floats

    def operation(
        self, eqn: Any, caller: Caller, values: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Store the results of layers and nonlinear functions, and the logits of losses."""
        name = eqn.primitive.name
        if not results:
            return
        self._made.add(eqn, values, results[0])
        self.patterns.carried(name, values, results)
        self.patterns.operation(eqn, caller, values, results[0])
        if name == "stop_gradient" and self._operation(self._source(values[0])) in BEFORE_CUTS:
            self._stopped = self._stopped or internals.line_of_equation(eqn, caller)
        if name in ARRANGING and id(values[0]) in self._data:
            self._data.add(id(results[0]))
        if name == "custom_jvp_call" and internals.custom_name(eqn) == "logaddexp":
            self._look_for_log_sigmoid(internals.line_of_equation(eqn, caller), values)
        if name == "reduce_sum" and len(eqn.params["axes"]) == values[0].ndim:
            self._look_for_difference(values[0])
        if name in ("mul", "select_n") and self.looks.logits:
            self.patterns.look_for_labels(name, values, results[0], self.looks.logits)
        if name == "log":
            self._look_for_logits(internals.line_of_equation(eqn, caller), values[0])
        if len(self.infos) >= MOST_LAYERS or not getattr(results[0], "ndim", 0):
            return
        role, operation = _role(eqn, values)
        if operation:
            self._keep(eqn, caller, role, operation, values, results[0])

    def _keep(
        self,
        eqn: Any,
        caller: Caller,
        role: Role,
        operation: str,
        values: Sequence[Any],
        result: Any,
    ) -> None:
        place = internals.line_of_equation(eqn, caller)
        is_layer, is_first = operation in LAYERS.values(), False
        if is_layer:
            is_first = self._take_inputs(values)
        info = Activation(
            name=self._name(place or "", caller.scope, operation),
            operation=operation,
            role=role,
            location=place,
            fan_in=values[1].size // max(1, result.shape[-1]) if is_layer else 0,
            is_first=is_first,
        )
        if is_layer and self._stopped and self.cut is None:
            self.cut = (self._stopped, info.name)
        self.infos.append(info)
        self.looks.activations.append(result)

    def _take_inputs(self, values: Sequence[Any]) -> bool:
        """Record the inputs of a layer, weights second; return whether they are data."""
        given, weights = values[0], values[1]
        self.looks.scales.append([jax.numpy.mean(jax.numpy.square(one)) for one in values[:2]])
        if id(given) not in self._data or id(weights) in self._data:
            return False
        self.looks.data.append(given)
        return True

    def _name(self, place: str, scope: str, operation: str) -> str:
        parts = [part for part in _SCOPE.sub(r"\1", scope).split("/") if part and "(" not in part]
        base = ".".join(parts[1:] or parts) or f"{operation} at {place.rpartition('/')[2]}"
        if parts and operation not in LAYERS.values():
            base = f"{base}.{operation}"
        self._named[base] += 1
        return base if self._named[base] == 1 else f"{base}#{self._named[base]}"

    def _look_for_logits(self, place: str | None, summed: Any) -> None:
        """Recognize log(sum(exp(x - max(x)))), where x are logits of a softmax cross-entropy."""
        summed = self._source(summed)
        if self._operation(summed) == "abs":
            summed = self._source(self._made.of(summed)[1][0])
        if self._operation(summed) != "reduce_sum":
            return
        total, inside = self._made.of(summed)
        exponentials = self._source(inside[0])  # 16-bit numbers are summed as 32-bit ones
        if self._operation(exponentials) != "exp":
            return
        shifted = self._made.of(exponentials)[1][0]
        logits = self._made.of(shifted)[1][0] if self._operation(shifted) == "sub" else shifted
        if getattr(logits, "ndim", 0) < 2 or len(total.params["axes"]) != 1:
            return
        self.looks.logits.append(logits)
        self.patterns.look_at_prediction(logits)
        chain, axis = self._chain(logits), int(total.params["axes"][0])
        self.softmaxes.append(
            Softmax(operation="cross_entropy", chain=chain, axis=axis, location=place)
        )

    def _look_for_log_sigmoid(self, place: str | None, values: Sequence[Any]) -> None:
        """Recognize log(1 + exp(x)), a part of a binary cross-entropy of logits."""
        logits = values[0]
        if self._operation(logits) == "neg":
            logits = self._made.of(logits)[1][0]
        known = any(logits is one for one in self.looks.logits)
        if len(values) < 2 or not _is_zero(values[1]) or known or not getattr(logits, "ndim", 0):
            return
        self.looks.logits.append(logits)
        operation = "binary_cross_entropy_with_logits"
        self.softmaxes.append(
            Softmax(operation=operation, chain=self._chain(logits), axis=-1, location=place)
        )

    def _look_for_difference(self, summed: Any) -> None:
        """Recognize a sum of squared or absolute differences between data and trained values."""
        summed = self._source(summed)
        if self._operation(summed) not in ("square", "integer_pow", "abs", "mul"):
            return
        eqn, inside = self._made.of(summed)
        difference = self._source(inside[0])
        if self._operation(difference) != "sub" or (
            eqn.primitive.name == "mul" and self._source(inside[1]) is not difference
        ):
            return
        made, terms = self._made.of(difference)
        sides = [self._before_broadcast(term) for term in terms]
        are_data = [id(self._source(side)) in self._data for side in sides]
        if sum(are_data) != 1:
            return
        target = sides[are_data.index(True)]
        prediction = sides[are_data.index(False)]
        self.patterns.look_at_prediction(prediction)
        self.looks.outputs.append(prediction)
        self.looks.targets.append(target)
        self.errors.append(
            Elementwise(
                prediction_shape=tuple(prediction.shape),
                target_shape=tuple(target.shape),
                result_shape=tuple(difference.shape),
                location=internals.line_of_equation(made),
            )
        )

    def _before_broadcast(self, value: Any) -> Any:
        while self._operation(value) in ("broadcast_in_dim", "convert_element_type"):
            value = self._made.of(value)[1][0]
        return value

    def _operation(self, value: Any) -> str:
        return self._made.operation(value)

    def _chain(self, value: Any) -> tuple[str, ...]:
        """Return the softmax or layer that computed a value; () for other operations."""
        operation = self._operation(value)
        while operation in ARRANGING:
            value = self._made.of(value)[1][0]
            operation = self._operation(value)
        if operation == "div":
            above, below = (self._source(one) for one in self._made.of(value)[1])
            if self._operation(above) == "exp" and self._operation(below) == "reduce_sum":
                return ("softmax",)
        if operation == "sub":
            below = self._source(self._made.of(value)[1][1])
            if self._operation(below) == "log":
                return ("log_softmax",)
        if operation == "logistic":
            return ("sigmoid",)
        return ("linear",) if operation in (*LAYERS, "add") else ()

    def _source(self, value: Any) -> Any:
        return self._made.source(value)


def _role(eqn: Any, values: Sequence[Any]) -> tuple[Role, str]:
    name = eqn.primitive.name
    if name in LAYERS:
        return "", LAYERS[name]
    if name in SATURATING:
        return "saturating", SATURATING[name]
    if name == "max" and any(_is_zero(value) for value in values):
        return "rectifier", "relu"
    if name == "custom_jvp_call":
        inner = eqn.params["call_jaxpr"].jaxpr.eqns
        called = str(inner[0].params.get("name", "")) if len(inner) == 1 else ""
        if called in RECTIFIERS:
            return ("rectifier" if called in ("relu", "relu6") else ""), called
    return "", ""


def _is_zero(value: Any) -> bool:
    concrete = not isinstance(value, jax.core.Tracer)
    return concrete and not getattr(value, "ndim", 0) and float(value) == 0.0


class Shadow:
    """Instrumented copy of one compiled function.

    Args:
        jitted: the function.
        book: record of the thread.
        loops: the function computes gradients in a loop, whose first iteration is observed.

    Attributes:
        names: names of the gradients, once it was traced.
        activations: descriptions of the activations.
        softmaxes: softmaxes of losses.
        errors: differences from which losses are computed.
        found: patterns in the loss.
        cut: line of a `stop_gradient` in the user's code, and the layer after it.
        zeros: names of the gradients that are 0 for every batch, because nothing depends on them.
    """

    def __init__(self, jitted: Jitted, book: Book, *, loops: bool = False) -> None:
        self._fun, self._book, self._loops = jitted.fun, book, loops
        self._context = internals.traced_anew if jitted.traced.logs else nullcontext
        self.names: tuple[str, ...] = ()
        self.activations: list[Activation] = []
        self.softmaxes: list[Softmax] = []
        self.errors: list[Elementwise] = []
        self.found = Found()
        self.zeros: tuple[str, ...] = ()
        self.cut: tuple[str | None, str] | None = None
        options = {name: jitted.options[name] for name in STATIC if name in jitted.options}

        def only(*args: Any, **kwargs: Any) -> Looks:
            return self._trace(args, kwargs)

        only.__signature__ = inspect.signature(jitted.fun)  # type: ignore[attr-defined]
        self._run = _RAW_JIT(only, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Looks:
        """Return the observed values of the step with these arguments."""
        with self._context():
            looks: Looks = self._run(*args, **kwargs)
        return looks

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """Trace the function, and return the facts that are true for all its calls."""
        with self._context():
            program = programs.read(self._run.trace(*args, **kwargs).jaxpr)
        first = 1  # after the loss
        self.zeros = tuple(n for i, n in enumerate(self.names, first) if i in program.zeros)
        return program

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Looks:
        leaves = jax.tree_util.tree_leaves((args, kwargs))
        traces = (internals.trace_of(leaf) for leaf in leaves)
        own = next((trace for trace in traces if trace is not None), None)
        looks = Looks()

        def add(call: Differentiated, collector: Collector, found: Looks) -> None:
            nonlocal looks
            if not call.gradients or looks.gradients:
                return
            if internals.trace_of(call.gradients[0]) is not own:
                return
            looks = found
            looks.gradients, looks.losses = list(call.gradients), [call.value]
            self.names, self.activations = call.names, collector.infos
            self.softmaxes, self.cut = collector.softmaxes, collector.cut
            self.errors, self.found = collector.errors, collector.patterns.found
            if self._loops:
                raise ObservedError

        in_loops = first_iterations(self._book) if self._loops else nullcontext()
        with collecting(self._book, add), in_loops, suppress(ObservedError):
            self._fun(*args, **kwargs)
        return looks


@contextmanager
def collecting(book: Book, add: Callable[..., None]) -> Any:
    """Make calls to `value_and_grad` report their inner values."""
    before, book.collector = book.collector, add
    try:
        yield
    finally:
        book.collector = before


def looked_into(
    fun: Callable[..., Any], collector: Collector, differentiated: Sequence[int]
) -> Callable[..., Any]:
    """Return a function that also returns the observations of a collector.

    Args:
        fun: a loss.
        collector: receives its operations.
        differentiated: positions of the arguments with respect to which gradients are computed.
    """

    def seen(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        dynamic = [index for index, leaf in enumerate(leaves) if _is_array(leaf)]
        shape: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            filled = list(leaves)
            for index, value in zip(dynamic, values, strict=True):
                filled[index] = value
            own_args, own_kwargs = jax.tree_util.tree_unflatten(tree, filled)
            results, out_tree = jax.tree_util.tree_flatten(fun(*own_args, **own_kwargs))
            arrays = [index for index, one in enumerate(results) if _is_array(one)]
            shape[:] = [results, out_tree, arrays]
            return [results[index] for index in arrays]

        closed = jax.make_jaxpr(flat)(*(leaves[index] for index in dynamic))
        evaluation = Evaluation(collector, loops=False, keeps_derivatives=True)
        own = {id(leaf) for leaf in jax.tree_util.tree_leaves([args[n] for n in differentiated])}
        outer = [leaves[index] for index in dynamic if id(leaves[index]) not in own]
        own_leaves = [leaves[index] for index in dynamic if id(leaves[index]) in own]
        collector.given([*outer, *(c for c in closed.consts if _is_array(c))], own_leaves)
        values = evaluation.run(closed.jaxpr, closed.consts, [leaves[index] for index in dynamic])
        collector.patterns.ended(values[0])
        results, out_tree, arrays = shape
        for index, value in zip(arrays, values, strict=True):
            results[index] = value
        return jax.tree_util.tree_unflatten(out_tree, results), collector.looks

    return seen


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape")


_RAW_JIT: Final = jax.jit


def traced(jitted: Jitted, args: Any, kwargs: Any) -> Any:
    """Trace the user's function anew with its static arguments, and return the jaxpr."""
    fun = jitted.fun

    def anew(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    anew.__signature__ = inspect.signature(fun)  # type: ignore[attr-defined]
    options = {name: jitted.options[name] for name in STATIC if name in jitted.options}
    return _RAW_JIT(anew, **options).trace(*args, **kwargs).jaxpr.jaxpr


jax.tree_util.register_dataclass(
    Looks,
    data_fields=[one.name for one in fields(Looks)],
    meta_fields=[],
)
