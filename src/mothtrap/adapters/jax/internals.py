"""Private names of JAX that this adapter uses, in one place, with the tested versions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import jax
from jax._src import core, debugging, distributed, source_info_util, traceback_util
from jax._src.interpreters import ad, batching, mlir, partial_eval
from jax._src.lax import lax

from mothtrap.tracing.source.frames import is_users_file, line_of

TRIED: Final = ("0.10",)
"""Minor versions for which `is_tried` returns True; in others, there are no shadows."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A call inside a jaxpr: its modules and line, and the called function.

    `name` is '' for calls whose jaxpr consists of that one call. `turn` is the position in a scan,
    and the scan's length; None outside of a scan.
    """

    scope: str = ""
    place: str | None = None
    name: str = ""
    turn: tuple[int, int] | None = None


def is_tried() -> bool:
    """Return whether the private names in use were tested with the installed version."""
    return jax.__version__.rpartition(".")[0] in TRIED


def place_among_processes() -> tuple[int | None, int]:
    """Return the rank in `jax.distributed` (None if not initialized) and the process count."""
    state = distributed.global_state
    if state.client is None:
        return None, 1
    return state.process_id, state.num_processes or 1


def is_top_level() -> bool:
    """Return whether no function is being traced in this thread."""
    return bool(core.trace_state_clean())


def trace_of(value: Any) -> object | None:
    """Return the trace to which a tracer belongs; None for anything else."""
    return getattr(value, "_trace", None) if isinstance(value, jax.core.Tracer) else None


def bind(eqn: Any, values: list[Any]) -> list[Any]:
    """Apply the operation of an equation of a jaxpr."""
    parameters = eqn.primitive.get_bind_params(eqn.params)
    with source_info_util.user_context(eqn.source_info.traceback), eqn.ctx.manager:
        found = eqn.primitive.bind(*values, **parameters)
    return list(found) if eqn.primitive.multiple_results else [found]


def weakly_typed(array: Any) -> Any:
    """Return an array with a weak type, like Python numbers."""
    return lax._convert_element_type(array, array.dtype, weak_type=True)


def scope_of(eqn: Any) -> str:
    """Return the names of the modules in which an operation was called: `Block_0/Dense_1`."""
    return str(eqn.source_info.name_stack)


def custom_name(eqn: Any) -> str:
    """Return the name of the function with a custom derivative that an equation calls."""
    info = getattr(eqn.params["call_jaxpr"].jaxpr, "debug_info", None)
    return str(getattr(info, "func_name", "") or eqn.params.get("name", "")).rpartition(".")[2]


def line_of_equation(eqn: Any, caller: Caller | None = None) -> str | None:
    """Return `file:line` of the user's code that created an operation.

    Args:
        eqn: the operation.
        caller: call to which it belongs. A compiled function of a library is traced once, so its
            locations are those of its first call; the caller's location is used instead.
    """
    library = None
    for frame in source_info_util.user_frames(eqn.source_info.traceback):
        if is_users_file(frame.file_name):
            name = frame.function_name.rpartition(".")[2]
            if caller is not None and caller.place and caller.name not in ("", name):
                return caller.place
            return line_of(frame.file_name, frame.start_line)
        library = library or line_of(frame.file_name, frame.start_line)
    return caller.place if caller is not None and caller.place else library


def _log_primitive() -> Any:
    """Return an operation that passes its one argument to a callback, and returns nothing.

    `jax.debug.callback` is unrolled by `vmap`: this operation receives all rows at once.
    """
    log = core.Primitive("mothtrap_log")
    log.multiple_results = True

    def lowered(value: Any, *, callback: Callable[[Any], Any]) -> list[Any]:
        jax.debug.callback(callback, value)
        return []

    def abstract(_: Any, *, callback: Any) -> Any:  # noqa: ARG001
        return [], {debugging.debug_effect}

    def batched(values: Any, axes: Any, **params: Any) -> Any:
        return log.bind(jax.numpy.moveaxis(values[0], axes[0], 0), **params), ()

    def differentiated(values: Any, _: Any, **params: Any) -> Any:
        return log.bind(*values, **params), []

    kept = functools.partial(debugging._debug_partial_eval_custom, primitive=log)
    log.def_impl(lowered)
    log.def_effectful_abstract_eval(abstract)
    batching.primitive_batchers[log] = batched
    ad.primitive_jvps[log] = differentiated
    partial_eval.partial_eval_jaxpr_custom_rules[log] = kept
    mlir.register_lowering(log, mlir.lower_fun(lowered, multiple_results=True))
    return log


@functools.cache
def _log() -> Any:
    return _log_primitive()


def call_back(callback: Callable[[Any], Any], value: Any) -> None:
    """Make a traced function pass a value to a callback whenever it runs.

    Args:
        callback: receives an array; one per pass of a loop, and all rows of a `vmap` at once.
        value: value of the function.
    """
    _log().bind(value, callback=callback)


_FRESH: Final = jax.make_user_context(False) if hasattr(jax, "make_user_context") else None


def traced_anew() -> AbstractContextManager[Any]:
    """Retrace everything inside this context, including loop bodies."""
    return _FRESH(True) if _FRESH is not None else nullcontext()


def hide(path: str) -> None:
    """Hide the frames of a file in JAX's tracebacks and source locations."""
    traceback_util.register_exclusion(path)
    source_info_util.register_exclusion(path)


def inputs_read(jaxpr: Any, without: Collection[int] = ()) -> frozenset[int]:
    """Return the positions of the arguments of a jaxpr on which any of its results depends.

    Args:
        jaxpr: the program.
        without: positions of results that do not count.
    """
    from jax.interpreters import partial_eval

    counts = [place not in without for place in range(len(jaxpr.outvars))]
    _, used = partial_eval.dce_jaxpr(jaxpr, counts)
    return frozenset(index for index, is_used in enumerate(used) if is_used)
