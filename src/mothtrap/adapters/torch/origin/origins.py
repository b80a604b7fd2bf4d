"""Origins of bad values, tracked from operation to operation and by storage.

A tensor that becomes bad in an operation with good inputs originates there. A tensor that is bad
because of a bad input has the origin of that input. A good tensor has no origin, so a bad value
that is masked, replaced or never used leads nowhere.

An intentional infinity (`masked_fill(..., -inf)`, or a mask that contains -inf) has a
**deliberate** origin. It is acceptable until an operation turns it into NaN. That operation is then
the origin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mothtrap.adapters.torch.origin.badness import Bad, has_values
from mothtrap.adapters.torch.origin.failing_calls import FailingCall, mapped

_MASKED = ("softmax", "logsumexp", "exp", "attention")
"""Operations that receive masks of -inf on purpose, by parts of their names."""
_UNINITIALIZED = (
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "new_empty_strided",
    "resize",
)
_PLACING = ("_to_copy", "copy", "masked_fill", "where", "clone", "fill", "neg", "nan_to_num")
"""Elementwise operations that are not tagged as such."""
_FILLING = ("copy", "fill", "zero", "normal", "uniform", "bernoulli", "random", "exponential")
"""Operations whose first argument is written without being read."""


@dataclass(slots=True, eq=False)
class Origin:
    """First operation or owner of bad values.

    Attributes:
        number: number of the origin, in order of observation.
        tensor: a copy of the first bad result; for bad inputs, of the tensor itself.
        memory: address of its memory.
        deliberate: infinities that may be intended.
        operation: operation that computed it; None if the input was already bad.
        first_use: first use of a bad input, the first operation with a bad result.
    """

    number: int
    tensor: torch.Tensor
    memory: int
    deliberate: bool
    operation: Operation | None = None
    first_use: FailingCall | None = None


@dataclass(slots=True, eq=False)
class Operation:
    """An operation that produced bad values.

    Attributes:
        name: the dispatcher's name, e.g. `aten.div.Tensor`.
        inputs: its tensors with their argument names, from before the operation.
        converts_to: the target dtype of a conversion.
        call: the operation with its arguments, as they were before the operation.
        context: further data that `Origins` was asked to collect.
    """

    name: str
    inputs: tuple[tuple[str, torch.Tensor], ...]
    converts_to: torch.dtype | None
    context: Any
    call: FailingCall | None = None

    @property
    def is_exchange(self) -> bool:
        """Return whether an operation's results come from other processes."""
        return "c10d" in self.name


class Origins:
    """Tracks bad values through operations.

    Args:
        bad: determines which values are bad.
        context: called for further data, right after an operation produced bad values from good
            ones.
    """

    def __init__(self, bad: Bad, context: Callable[[], Any]) -> None:
        self._bad, self._context = bad, context
        self._of: dict[int, tuple[Any, Origin]] = {}
        self._received: list[tuple[Any, Operation]] = []
        self._made = 0

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operation, and record the origin of bad values in its results."""
        written = _written(func, args, kwargs)
        before = {id(tensor): tensor.clone() for tensor in written if has_values(tensor)}
        given = [
            (name, tensor, before.get(id(tensor), tensor))
            for name, tensor in _named_tensors(func, args, kwargs)
        ]
        unread = {id(tensor) for tensor in _overwritten(func, args, kwargs)}
        coming = [
            (value, self._origin_of(tensor, value))
            for _, tensor, value in given
            if id(tensor) not in unread and self._is_bad(value)
        ]
        result = func(*args, **kwargs)
        if func.namespace.endswith("c10d"):
            exchange = Operation(str(func), (), None, self._context())
            self._received.extend((tensor.untyped_storage(), exchange) for tensor in written)
        if _plain_name(func) in _UNINITIALIZED:
            return result
        step = _Step(
            func, [(name, value) for name, _, value in given], coming, args, kwargs, before
        )
        for tensor in _results(result, written):
            if self._is_bad(tensor) and not (_is_view(func) and self._known(tensor)):
                origin = self._decide(step, tensor)
                self._set(tensor, origin)
                if origin.operation is None and origin.first_use is None and not _is_view(func):
                    origin.first_use = step.call()
        return result

    def of(self, tensor: torch.Tensor) -> Origin | None:
        """Return the origin of a tensor's bad values; None if it has none."""
        return self._origin_of(tensor, tensor) if self._is_bad(tensor) else None

    @property
    def made(self) -> int:
        """Return the number of origins seen so far."""
        return self._made

    def first(self) -> Origin | None:
        """Return the first operation that produced unintended bad values."""
        found = [o for _, o in self._of.values() if o.operation is not None and not o.deliberate]
        return min(found, key=lambda origin: origin.number, default=None)

    def _is_bad(self, tensor: torch.Tensor) -> bool:
        return self._bad.is_in(tensor)

    def _known(self, tensor: torch.Tensor) -> bool:
        return storage_key(tensor) in self._of

    def _set(self, tensor: torch.Tensor, origin: Origin) -> None:
        storage = tensor.untyped_storage()  # kept, so that its address is not used again
        self._of[storage_key(tensor)] = storage, origin

    def _origin_of(self, tensor: torch.Tensor, value: torch.Tensor) -> Origin:
        known = self._of.get(storage_key(tensor))
        if known is not None:
            return known[1]
        origin = self._new(value, deliberate=_only_minus_infinity(value))
        origin.operation = self._sent(tensor)
        origin.memory = tensor.untyped_storage().data_ptr()
        self._set(tensor, origin)
        return origin

    def _sent(self, tensor: torch.Tensor) -> Operation | None:
        """Return the exchange that wrote a tensor, possibly after the call returned."""
        key = storage_key(tensor)
        kept = (operation for storage, operation in self._received if storage._cdata == key)
        return next(kept, None)

    def _new(self, tensor: torch.Tensor, *, deliberate: bool, **about: Any) -> Origin:
        self._made += 1
        memory = tensor.untyped_storage().data_ptr()
        return Origin(self._made, tensor.detach().clone(), memory, deliberate, **about)

    def _decide(self, step: _Step, result: torch.Tensor) -> Origin:
        inputs = step.coming_to(result)
        meant = [origin for _, origin in inputs if origin.deliberate]
        others = [origin for _, origin in inputs if not origin.deliberate]
        if others:
            first = min(others, key=lambda origin: origin.number)
            if not step.elementwise or not self._adds(inputs, result):
                return first
            return min(first, self._here(step, result), key=lambda origin: origin.number)
        if not inputs or (step.elementwise and self._adds(inputs, result)):
            return self._here(step, result)
        first = min(meant, key=lambda origin: origin.number)
        if not bool(torch.isnan(result).any()):
            return first
        if first.operation is None and not step.takes_masks:
            first.deliberate = False  # -inf was in the data, and is not part of a mask
            return first
        return self._here(step, result)

    def _here(self, step: _Step, result: torch.Tensor) -> Origin:
        deliberate = step.puts_infinity and not bool(torch.isnan(result).any())
        operation = Operation(
            str(step.func),
            tuple((name, value.detach().clone()) for name, value in step.given),
            _converts(step, result),
            self._context(),
            step.call(),
        )
        return self._new(result, deliberate=deliberate, operation=operation)

    def _adds(self, inputs: Sequence[tuple[torch.Tensor, Origin]], result: torch.Tensor) -> bool:
        """Return whether an elementwise result is bad where no input is bad."""
        new = self._bad.mask(result)
        for value, _ in inputs:
            try:
                new &= ~self._bad.mask(value).broadcast_to(new.shape)
            except RuntimeError:
                return False
        return bool(new.any())


class _Step:
    """A completed operation with its inputs."""

    def __init__(
        self,
        func: Any,
        given: list[tuple[str, torch.Tensor]],
        coming: list[tuple[torch.Tensor, Origin]],
        args: Any,
        kwargs: Any,
        before: Mapping[int, torch.Tensor],
    ) -> None:
        self._args, self._kwargs, self._before = args, kwargs, before
        self.func, self.given, self._coming = func, given, coming
        name = _plain_name(func)
        self._many = name.startswith("_foreach")
        self.elementwise = (
            self._many or torch.Tag.pointwise in getattr(func, "tags", ()) or name in _PLACING
        )
        self.takes_masks = any(word in name for word in _MASKED)
        self.puts_infinity = any(
            isinstance(value, float) and math.isinf(value) for value in _flat((args, kwargs))
        )

    def call(self) -> FailingCall:
        """Return the operation with copies of its arguments, as they were before it."""

        def copied(tensor: torch.Tensor) -> torch.Tensor:
            return self._before.get(id(tensor), tensor).detach().clone()

        args, kwargs = mapped((self._args, self._kwargs), copied)
        return FailingCall(name=str(self.func), function=self.func, args=args, kwargs=kwargs)

    def coming_to(self, result: torch.Tensor) -> list[tuple[torch.Tensor, Origin]]:
        """Return the bad inputs from which one of the results is computed."""
        if not self._many:
            return self._coming
        # Lists are parallel: a different size belongs to a different member.
        return [(v, o) for v, o in self._coming if v.shape == result.shape or not v.dim()]


def storage_key(tensor: torch.Tensor) -> int:
    """Return the identity of a tensor's memory while it exists."""
    return int(tensor.untyped_storage()._cdata)


def _only_minus_infinity(tensor: torch.Tensor) -> bool:
    if tensor.is_complex() or bool(torch.isnan(tensor).any()):
        return False
    return bool((tensor == -math.inf).any()) and not bool((tensor == math.inf).any())


def _converts(step: _Step, result: torch.Tensor) -> torch.dtype | None:
    dtypes = {value.dtype for _, value in step.given}
    if _plain_name(step.func) in ("_to_copy", "copy") and dtypes - {result.dtype}:
        return result.dtype
    return None


def _is_view(func: Any) -> bool:
    return any(a.alias_info is not None and not a.alias_info.is_write for a in func._schema.returns)


def _written(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors that an operation changes, in the order of its arguments."""
    found: list[torch.Tensor] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            found.extend(part for part in _flat(value) if isinstance(part, torch.Tensor))
    return found


def _overwritten(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """Return the tensors that an operation writes without reading them."""
    if _plain_name(func) in _FILLING:
        yield from (tensor for tensor in args[:1] if isinstance(tensor, torch.Tensor))
    for argument in func._schema.arguments:
        if argument.kwarg_only and argument.alias_info is not None:
            yield from (t for t in _flat(kwargs.get(argument.name)) if isinstance(t, torch.Tensor))


def _plain_name(func: Any) -> str:
    """Return the plain name of an operation: `div` for `aten::div_`."""
    return str(func._schema.name.partition("::")[2].rstrip("_"))


def _named_tensors(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Iterator[tuple[str, torch.Tensor]]:
    arguments = func._schema.arguments
    for position, value in enumerate(args):
        name = arguments[position].name if position < len(arguments) else str(position)
        yield from ((name, part) for part in _flat(value) if isinstance(part, torch.Tensor))
    for name, value in kwargs.items():
        yield from ((name, part) for part in _flat(value) if isinstance(part, torch.Tensor))


def _results(result: Any, written: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    found = [part for part in _flat(result) if isinstance(part, torch.Tensor)]
    seen = {id(tensor) for tensor in found}
    return found + [tensor for tensor in written if id(tensor) not in seen]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _flat(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _flat(part)
    else:
        yield value
