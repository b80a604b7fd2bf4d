"""Localization of a step's fault: the operation that produced the first bad values.

`OperationObserver` wraps the forward and backward pass. It slows them down considerably, and
depends on values only: the step is replayed bit for bit without it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.overrides import _get_current_function_mode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from mothtrap.adapters.torch.explaining.scene import operands_written
from mothtrap.adapters.torch.explaining.shapes import is_about_shapes
from mothtrap.adapters.torch.job.naming import NameBook
from mothtrap.adapters.torch.job.nested import placed_tensors
from mothtrap.adapters.torch.origin import user_calls
from mothtrap.adapters.torch.origin.badness import Bad, TensorFacts, facts_of
from mothtrap.adapters.torch.origin.failing_calls import FailingCall
from mothtrap.adapters.torch.origin.holders import Holders
from mothtrap.adapters.torch.origin.origins import Operation, Origin, Origins
from mothtrap.adapters.torch.origin.user_calls import (
    ModuleCall,
    UserCall,
    UserCalls,
)

INPUTS = 8
"""Maximum number of described inputs of an operation. Chosen by hand."""
_NONFINITE = re.compile(r"\bnan\b|\binf(inite|inity)?\b|non-?finite|not finite", re.IGNORECASE)
ORDINALS = ("first", "second", "third", "fourth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Localized:
    """Cause of a bad step.

    Attributes:
        operation: operation in the user's terms, `torch.log`, `backward of torch.sqrt`, `conversion
            to torch.float16`; None if the input was already bad.
        module: path of the module in which it ran; None outside of modules.
        location: `file:line` of the user's code; for a backward pass, the line of its forward pass.
        stack: the user's frames, innermost first; `location` is the first.
        detail: the dispatcher's name of the operation.
        inputs: inputs of the operation.
        rows: bad positions on the first axis of its result; candidates, not proof.
        rows_of: length of that axis.
        holder: input that was already bad: `weight fc.weight`, `batch[0]`.
        error: `Type: text` of the exception that ended the step.
        sentence: all of this in one sentence for people.
        call: the user's call, with its arguments; never shown.
        operation_call: the dispatcher's operation with its arguments; for bad inputs, the first
            operation with a bad result.
        number: number of the failure in the step; the number of the last failure if unknown.
    """

    operation: str | None
    module: str | None
    location: str | None
    stack: tuple[str, ...] = ()
    detail: str | None = None
    inputs: tuple[TensorFacts, ...] = ()
    rows: tuple[int, ...] = ()
    rows_of: int = 0
    holder: str | None = None
    error: str | None = None
    sentence: str
    call: UserCall | None = None
    operation_call: FailingCall | None = None
    number: int = sys.maxsize


@dataclass(frozen=True, slots=True)
class _Context:
    """Place at which an operation ran."""

    call: UserCall | None
    forward: UserCall | None
    node: str | None
    stack: tuple[str, ...]
    module: str | None


class OperationObserver(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Observes a step from its first forward pass to its optimizer step, as a context.

    Args:
        book: names of modules; a new one by default.
        limit: finite values of a larger magnitude are bad, too.
        keep: remember the arguments of every call, for a test of a failure in the backward pass;
            takes the memory of all intermediate results.
    """

    supports_higher_order_operators = True

    def __init__(
        self, book: NameBook | None = None, *, limit: float = float("inf"), keep: bool = False
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._bad = Bad(limit)
        self._running: list[ModuleCall] = []
        self._failed: tuple[BaseException, UserCall] | None = None
        self._calls = UserCalls(lambda: tuple(self._running), self.loss, keep=keep)
        self._lost: list[Origin] = []
        self._aside = False
        self._raising: FailingCall | None = None
        self._origins = Origins(self._bad, self._context)
        self._holders = Holders(book or NameBook())
        self._undo = ExitStack()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Treat compiled code as one operation, so that it is not run uncompiled."""
        return True

    def __enter__(self) -> OperationObserver:
        self._stand_around_modules()
        was = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        self._undo.callback(torch.autograd.set_detect_anomaly, *was)
        torch.autograd.set_detect_anomaly(True, check_nan=False)  # for the locations of nodes
        self._undo.enter_context(self._calls)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *about: Any) -> None:
        try:
            super().__exit__(*about)  # type: ignore[no-untyped-call]
        finally:
            self._undo.close()

    @property
    def on_top(self) -> bool:
        """Return whether its modes are on top of torch's stacks.

        They can be removed only there.
        """
        dispatching: object = _get_current_dispatch_mode()
        calling: object = _get_current_function_mode()  # type: ignore[no-untyped-call]
        return dispatching is self and calling is self._calls

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(_has_ways_of_its_own(cls) for cls in types):
            return NotImplemented  # it decomposes itself, and its parts are observed here
        if self._aside or not hasattr(func, "_schema"):
            return func(*args, **kwargs)
        try:
            return self._origins.run(func, args, kwargs)
        except Exception:
            self._raising = FailingCall(name=str(func), function=func, args=args, kwargs=kwargs)
            raise

    def handed(self, value: Any) -> None:
        """Record the names of the parts of a batch from a loader."""
        self._holders.batch(value)

    def variables(self, values: Mapping[str, Any]) -> None:
        """Record the names of variables that contain the step's inputs."""
        self._holders.variables(values)

    def pause(self, paused: bool) -> None:
        """Pause or resume observation for code that is not part of the step."""
        self._aside = self._calls.aside = paused

    def loss(self, tensor: torch.Tensor) -> None:
        """Record a loss; not needed if its own `backward` is called."""
        origin = self._origins.of(tensor.detach())
        if origin is not None and origin not in self._lost:
            self._lost.append(origin)

    @property
    def seen(self) -> int:
        """Return the number of bad results so far."""
        return self._origins.made

    def explain(self, gradients: Mapping[str, torch.Tensor | None]) -> Localized | None:
        """Return the origin of bad values in the losses, or else in the gradients.

        Args:
            gradients: gradients by the names of their parameters.

        Returns:
            None if nothing is bad.
        """
        found = self._lost
        if not found:
            bad = (self._origins.of(g.detach()) for g in gradients.values() if g is not None)
            found = [origin for origin in bad if origin is not None]
        if not found:
            return None
        origin = min(found, key=lambda origin: origin.number)
        if origin.operation is None and self._holders.of(origin.memory) is None:
            # the call entered code that cannot be observed
            origin = self._origins.first() or origin
        return self._localized(origin)

    def raised(self, error: BaseException) -> Localized | None:
        """Return the operation that raised an exception, or produced the NaN that it rejected.

        Returns:
            None if it is not a torch object.
        """
        call = self._calls.raising(error)
        refused = self._refused(call, error)
        if call is None or refused is not None:
            return refused
        inputs = tuple(_shown(_given(call, operands_written(error))))
        text = f"{type(error).__name__}: {error}"
        return Localized(
            operation=call.function,
            module=call.module,
            location=call.stack[0] if call.stack else None,
            stack=call.stack,
            inputs=inputs,
            error=text,
            sentence=f"{call.function} raised {text}{_where(call.module, call.stack)}",
            call=call,
            operation_call=self._raising,
        )

    def _refused(self, call: UserCall | None, error: BaseException) -> Localized | None:
        """Return the origin of a NaN that an operation, or code around it, rejected."""
        if not _is_about_values(error):
            return None
        if call is None:
            origin = self._origins.first() if _NONFINITE.search(str(error)) else None
        else:
            given = (self._origins.of(tensor) for _, tensor in _given(call, {}))
            bad = [origin for origin in given if origin is not None and not origin.deliberate]
            origin = min(bad, key=lambda origin: origin.number, default=None)
        if origin is None:
            return None
        found = self._localized(origin)
        which = f"{call.function} rejected it" if call is not None else "the script rejected it"
        place = _where(None, call.stack) if call is not None else ""
        return replace(found, sentence=f"{found.sentence}; {which}{place}")

    def raised_in_module(self, error: BaseException) -> Localized | None:
        """Return the module that raised an exception itself; None if there is none."""
        if self._failed is None or self._failed[0] is not error:
            return None
        call = self._failed[1]
        innermost = call.running[-1]
        text = f"{type(error).__name__}: {error}"
        kind = type(innermost.module).__name__
        what = kind if innermost.path == kind else f"{innermost.path} ({kind})"
        return Localized(
            operation=None,
            module=call.module,
            location=call.stack[0] if call.stack else None,
            stack=call.stack,
            error=text,
            sentence=f"{what} raised {text}{_where(None, call.stack)}",
            call=call,
        )

    def _localized(self, origin: Origin) -> Localized:
        if origin.operation is None:
            return self._told_holder(origin)
        operation, context = origin.operation, origin.operation.context
        words = _words(operation, context)
        facts = tuple(
            facts_of(name, tensor, origin.tensor, self._bad)
            for name, tensor in operation.inputs[:INPUTS]
        )
        rows = self._bad.rows(origin.tensor)
        what = _kinds(origin.tensor)
        does = "received from another rank" if operation.is_exchange else "made"
        return Localized(
            operation=words,
            module=context.module,
            location=context.stack[0] if context.stack else None,
            stack=context.stack,
            detail=operation.name,
            inputs=facts,
            rows=rows,
            rows_of=len(origin.tensor) if origin.tensor.dim() else 0,
            sentence=f"{words} {does} {what}{_where(context.module, context.stack)}",
            call=context.forward or context.call,
            operation_call=operation.call,
            number=origin.number,
        )

    def _told_holder(self, origin: Origin) -> Localized:
        holder = self._holders.of(origin.memory)
        given = holder is None or not holder.startswith(("weight", "buffer"))
        rows = self._bad.rows(origin.tensor) if given else ()
        shape = tuple(origin.tensor.shape)
        name = holder or f"a tensor of shape {shape} that no operation of the step produced"
        which = f" in {_listed(rows)}" if rows else ""
        return Localized(
            operation=None,
            module=None,
            location=None,
            inputs=(facts_of(name, origin.tensor),),
            rows=rows,
            rows_of=shape[0] if rows else 0,
            holder=holder,
            operation_call=origin.first_use,
            sentence=(
                f"{name} contains {_kinds(origin.tensor)}{which}, and already did at the start"
            ),
            number=origin.number,
        )

    def _context(self) -> _Context:
        """Return the location of the operation that has just run."""
        call, node = self._calls.current, user_calls.running_node()
        if call is not None or node is None:
            stack = call.stack if call is not None else user_calls.own_stack()
            if call is not None:
                call.kept = True
                call.inside = user_calls.function_call()
            return _Context(call, None, None, stack, self._running_module())
        forward = self._calls.of_node(node)
        if forward is not None:
            return _Context(None, forward, forward.function, forward.stack, forward.module)
        stack = user_calls.stack_in_backward() or user_calls.node_stack(node)
        return _Context(None, None, user_calls.node_words(node), stack, None)

    def _stand_around_modules(self) -> None:
        """Track which modules run; with keywords, which a global hook does not receive."""
        original: Callable[..., Any] = nn.Module._call_impl

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self._aside or torch.compiler.is_compiling():
                return original(module, *args, **kwargs)
            path = self._holders.path(module)
            if not self._running:
                self._holders.called(module, args, kwargs)
            self._running.append(ModuleCall(module, path, args, kwargs))
            try:
                return original(module, *args, **kwargs)
            except BaseException as err:
                if self._failed is None or self._failed[0] is not err:
                    self._failed = err, user_calls.call_of_module(tuple(self._running))
                raise
            finally:
                self._running.pop()

        setattr(nn.Module, "_call_impl", call)  # noqa: B010  # for the type checker
        self._undo.callback(setattr, nn.Module, "_call_impl", original)

    def _running_module(self) -> str | None:
        return self._running[-1].path if self._running else None


def _is_about_values(error: BaseException) -> bool:
    """Return whether NaN can be the reason of an exception; not if shapes or indices are."""
    about = isinstance(error, RuntimeError | ValueError) and not is_about_shapes(str(error))
    return about and not isinstance(error, torch.OutOfMemoryError | NotImplementedError)


def _has_ways_of_its_own(cls: Any) -> bool:
    return cls.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl and cls not in (
        torch.Tensor,
        nn.Parameter,
    )


def _words(operation: Operation, context: _Context) -> str:
    if operation.is_exchange:
        return user_calls.exchange_name(operation.name)
    if operation.converts_to is not None:
        words = f"conversion to {operation.converts_to}"
    elif context.call is not None:
        words = context.call.function
    elif context.node is not None:
        words = context.node
    else:
        own = operation.name.removeprefix("aten.").split(".")[0]
        words = user_calls.torch_name(own) or operation.name
    return f"backward of {words}" if context.node is not None else words


def _kinds(tensor: torch.Tensor) -> str:
    nan, inf = bool(torch.isnan(tensor).any()), bool(torch.isinf(tensor).any())
    if nan and inf:
        return "NaN and infinities"
    return "NaN" if nan else "infinities" if inf else "values beyond the limit"


def _where(module: str | None, stack: tuple[str, ...]) -> str:
    place = f" at {stack[0]}" if stack else ""
    return f" in {module}{place}" if module else place


def _listed(rows: tuple[int, ...]) -> str:
    if len(rows) == 1:
        return f"row {rows[0]}"
    shown = ", ".join(map(str, rows[:8]))
    return f"rows {shown}" + (" and more" if len(rows) > 8 else "")


def _given(call: UserCall, written: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the tensors passed to a call, named as in the user's line, or else by position."""
    names: dict[int, str] = {}
    for name, value in written.items():
        for place, tensor in placed_tensors(value):
            names.setdefault(id(tensor), f"{name}[{place}]" if place else name)
    for position, value in enumerate(call.args):
        which = ORDINALS[position] if position < len(ORDINALS) else f"{position + 1}th"
        for place, tensor in placed_tensors(value):
            ordinal = f"{which} operand" + (f"[{place}]" if place else "")
            yield names.get(id(tensor), ordinal), tensor
    for key, value in call.kwargs.items():
        for place, tensor in placed_tensors(value, key):
            yield names.get(id(tensor), place), tensor


def _shown(tensors: Iterator[tuple[str, torch.Tensor]]) -> Iterator[TensorFacts]:
    for place, tensor in tensors:
        if tensor.layout is torch.strided and not tensor.is_quantized:
            yield facts_of(place, tensor)
