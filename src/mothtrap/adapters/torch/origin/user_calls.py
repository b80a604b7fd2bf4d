"""The current call in the user's code: the function, as the user writes it, and the line."""

from __future__ import annotations

import bisect
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

from mothtrap.tracing.source import frames

STACK_LINES = 12
"""Maximum number of stored lines of a user's stack, innermost first. Chosen by hand."""
_OPERATOR = re.compile(r"__([ri]?)(\w+?)__")
_OPERATORS = {"truediv": "div", "floordiv": "floor_divide", "mod": "remainder"}
_NODE = re.compile(r"(\w+?)Backward\d*$")
_ATTRIBUTES = ("__get__", "__set__", "__delete__")
_BACKWARDS = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
_APPLYING = {torch.autograd.function.BackwardCFunction.apply.__code__}
_PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


@dataclass(frozen=True, slots=True, eq=False)
class ModuleCall:
    """A running module with its arguments."""

    module: nn.Module
    path: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCall:
    """A running user function with its arguments."""

    function: Any
    arguments: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class UserCall:
    """A call to a torch function from code outside torch.

    Attributes:
        function: function in the user's terms, e.g. `torch.log`; empty if no torch function was
            called.
        module: path of the running module; None outside of modules.
        running: the modules that ran, innermost last.
        inside: the user's function that made the call, if requested.
        autocast: device and type, if autocast is enabled.
        stack: `file:line` of the user's code, innermost first.
        args, kwargs: its arguments.
        kept: whether its arguments are kept after it ends.
        first_node, end_node: range of sequence numbers of the autograd nodes created in it.
    """

    function: str
    module: str | None
    running: tuple[ModuleCall, ...]
    stack: tuple[str, ...]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    first_node: int
    end_node: int = 0
    inside: FunctionCall | None = None
    autocast: tuple[str, torch.dtype] | None = None
    kept: bool = False


class UserCalls(TorchFunctionMode):
    """Records every call to a torch function while active.

    Args:
        running: returns the running modules, innermost last.
        loss: notified of every tensor on which `backward` is called.
        keep: keep the arguments of every call, even without a failure.

    Attributes:
        current: current call, None between calls and in torch's own backward pass.
        aside: calls that do not belong to the user.
    """

    def __init__(
        self,
        running: Callable[[], tuple[ModuleCall, ...]],
        loss: Callable[[torch.Tensor], None],
        *,
        keep: bool = False,
    ) -> None:
        super().__init__()
        self._keep = keep
        self._running, self._loss = running, loss
        self.current: UserCall | None = None
        self.aside = False
        self._with_nodes: list[UserCall] = []
        self._raised: tuple[BaseException, UserCall] | None = None

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.Tensor.backward:
            self._loss(args[0])
        if self.aside or self.current is not None or _is_no_operation(func):
            return func(*args, **kwargs)
        self.current = call = self._began(func, args, kwargs)
        try:
            return func(*args, **kwargs)
        except BaseException as err:
            self._raised = err, call
            call.kept = True
            call.inside = function_call()
            raise
        finally:
            self.current = None
            call.end_node = _nodes_made()
            if call.end_node > call.first_node:
                self._with_nodes.append(call)
            if not (call.kept or self._keep):
                call.args, call.kwargs, call.running = (), {}, ()

    def _began(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> UserCall:
        running = self._running()
        return UserCall(
            function=words_of(func),
            module=running[-1].path if running else None,
            running=running,
            stack=stack_of(frames.user_frame()),
            args=args,
            kwargs=kwargs,
            first_node=_nodes_made(),
            autocast=autocast(),
        )

    def of_node(self, node: Any) -> UserCall | None:
        """Return the call that created a graph node."""
        number = node._sequence_nr()
        at = bisect.bisect_right(self._with_nodes, number, key=lambda call: call.first_node) - 1
        if at >= 0 and number < self._with_nodes[at].end_node:
            return self._with_nodes[at]
        return None

    def raising(self, error: BaseException) -> UserCall | None:
        """Return the call that raised an exception."""
        raised = self._raised
        return raised[1] if raised is not None and raised[0] is error else None


def call_of_module(running: tuple[ModuleCall, ...]) -> UserCall:
    """Return the call of the innermost running module that raises an exception itself."""
    innermost = running[-1]
    return UserCall(
        function="",
        module=innermost.path,
        running=running,
        stack=own_stack(),
        args=innermost.args,
        kwargs=innermost.kwargs,
        first_node=0,
        autocast=autocast(),
    )


def function_call() -> FunctionCall | None:
    """Return the running top-level function of a user module; None for other code."""
    frame = frames.user_frame()
    if frame is None:
        return None
    code = frame.f_code
    function = frame.f_globals.get(code.co_name)
    if getattr(function, "__code__", None) is not code:
        return None
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_posonlyargcount:
        return None
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return FunctionCall(function, {name: frame.f_locals.get(name) for name in names})


def autocast() -> tuple[str, torch.dtype] | None:
    """Return device and type of the active autocast; None if there is none."""
    for kind in ("cpu", "cuda"):
        if torch.is_autocast_enabled(kind):
            return kind, torch.get_autocast_dtype(kind)
    return None


def _nodes_made() -> int:
    return int(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]


def _is_no_operation(func: Any) -> bool:
    return func in _BACKWARDS or getattr(func, "__name__", "") in _ATTRIBUTES


def stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """Return `file:line` of the user's frames from a frame outward, innermost first."""
    places: list[str] = []
    while frame is not None and len(places) < STACK_LINES:
        if frames.is_users(frame) or not places:
            places.append(frames.location(frame) or "")
        frame = frame.f_back
    return tuple(places)


def words_of(func: Any) -> str:
    """Return a function's usual name: `torch.log` also for `x.log()` and `x.log_()`."""
    name = resolve_name(func) or f"{_owner(func)}.{getattr(func, '__name__', func)}"
    owner, _, own = name.rpartition(".")
    if owner not in ("torch.Tensor", "torch"):
        return str(name)
    return torch_name(own) or str(name)


def torch_name(own: str) -> str | None:
    """Return `torch.div` for `div_`, `__rtruediv__` etc.; None if there is no such name."""
    operator = _OPERATOR.fullmatch(own)
    if operator is not None:
        bare = operator.group(2)
        whole = operator.group(1) + bare  # `__invert__` is not an in-place operator
        own = whole if hasattr(torch, whole) else _OPERATORS.get(bare, bare)
    for name in (own.rstrip("_"), own):
        if callable(getattr(torch, name, None)):
            return f"torch.{name}"
    return None


def exchange_name(name: str) -> str:
    """Return `torch.distributed.all_reduce` for `c10d.allreduce_.default`."""
    own = name.split(".")[1].rstrip("_").removesuffix("_coalesced")
    return f"torch.distributed.{re.sub('^all(?=[a-z])', 'all_', own).replace('toall', 'to_all')}"


def _owner(func: Any) -> str:
    owner = getattr(func, "__module__", None) or "torch"
    return "torch.nn.functional" if owner == "torch._C._nn" else str(owner)


def node_words(node: Any) -> str:
    """Return a description of the operation of a backward node, from its name."""
    found = _NODE.match(node.name())
    bare = found.group(1) if found is not None else node.name()
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare).lower()
    return torch_name(snake) or str(bare)


def node_stack(node: Any) -> tuple[str, ...]:
    """Return `file:line` of the user's code that created a node, under anomaly mode."""
    places = []
    for entry in reversed(node.metadata.get("traceback_", ())):
        found = _PLACE.search(entry)
        if found is not None and frames.is_users_file(found["file"]):
            places.append(frames.line_of(found["file"], int(found["line"])))
    return tuple(places[:STACK_LINES])


def running_node() -> Any:
    """Return the autograd node running in this thread, or None."""
    return torch._C._current_autograd_node()


def own_stack() -> tuple[str, ...]:
    """Return `file:line` of the running user code, innermost first."""
    return stack_of(frames.user_frame())


def stack_in_backward() -> tuple[str, ...]:
    """Return `own_stack` inside the backward of a user's autograd function, otherwise ()."""
    frame, found = frames.user_frame(), []
    outside = frame
    while outside is not None and outside.f_code not in _APPLYING:
        outside = outside.f_back
    while outside is not None and frame is not None and frame is not outside:
        if frames.is_users(frame):
            found.append(frames.location(frame) or "")
        frame = frame.f_back
    return tuple(found)
