"""Evaluate jaxprs operation by operation, and inspect the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

import jax

from mothtrap.adapters.jax import internals
from mothtrap.adapters.jax.internals import Caller

OUTSIDE: Final = Caller()

INLINED: Final = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}
"""Operations that only call a jaxpr, and the parameter that contains it."""
WHOLE: Final = frozenset(
    {"custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "checkpoint", "remat2"}
)
"""Functions with a custom derivative, which would be lost by inlining."""


class Looker(Protocol):
    """Receives each operation, in order of execution."""

    def operation(
        self, eqn: Any, caller: Caller, values: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Process an operation.

        Args:
            eqn: equation of the jaxpr.
            caller: call to which it belongs; its scope has the modules of both.
            values: its input values.
            results: results that it returned.
        """


class Evaluation:
    """Evaluates jaxprs.

    Args:
        looker: receives the operations.
        loops: also evaluate loops and branches; this requires known values.
        keeps_derivatives: treat a function with a custom derivative as one operation.
    """

    def __init__(self, looker: Looker, *, loops: bool, keeps_derivatives: bool) -> None:
        self._looker, self._loops = looker, loops
        self._whole = WHOLE if keeps_derivatives else frozenset[str]()

    def run(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        args: Sequence[Any],
        caller: Caller = OUTSIDE,
    ) -> list[Any]:
        """Return the results of a jaxpr."""
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        known.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Any:
            return atom.val if hasattr(atom, "val") else known[atom]

        for eqn in jaxpr.eqns:
            values = [read(atom) for atom in eqn.invars]
            scope = "/".join(part for part in (caller.scope, internals.scope_of(eqn)) if part)
            name = eqn.primitive.name
            if name in INLINED and name not in self._whole:
                inside = self._inside(eqn, caller, scope)
                results = self._call(eqn.params[INLINED[name]], values, inside)
            elif self._loops and name in _LOOPS:
                inside = self._inside(eqn, caller, scope)
                results = _LOOPS[name](self, eqn.params, values, inside)
            else:
                results = internals.bind(eqn, values)
                own = replace(caller, scope=scope)
                with eqn.ctx.manager:  # a value belongs to the mesh of its operation
                    self._looker.operation(eqn, own, values, results)
            known.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _inside(self, eqn: Any, caller: Caller, scope: str) -> Caller:
        place = internals.line_of_equation(eqn, caller)
        return Caller(scope, place, str(eqn.params.get("name", "")), caller.turn)

    def _call(self, inner: Any, values: Sequence[Any], caller: Caller) -> list[Any]:
        consts = getattr(inner, "consts", ())
        return self.run(getattr(inner, "jaxpr", inner), consts, values, caller)

    def _scan(self, params: dict[str, Any], values: list[Any], caller: Caller) -> list[Any]:
        fixed, carried = params["num_consts"], params["num_carry"]
        consts, carry = values[:fixed], values[fixed : fixed + carried]
        rows = values[fixed + carried :]
        order = range(params["length"])
        stacked: list[list[Any]] = []
        for index in reversed(order) if params["reverse"] else order:
            given = [*consts, *carry, *(row[index] for row in rows)]
            turn = replace(caller, turn=(index, params["length"]))
            results = self._call(params["jaxpr"], given, turn)
            carry = results[:carried]
            stacked.append(results[carried:])
        if params["reverse"]:
            stacked.reverse()
        columns = zip(*stacked, strict=True)
        return [*carry, *(jax.numpy.stack(column) for column in columns)]

    def _while(self, params: dict[str, Any], values: list[Any], caller: Caller) -> list[Any]:
        of_test, of_body = params["cond_nconsts"], params["body_nconsts"]
        test, body = values[:of_test], values[of_test : of_test + of_body]
        carry = values[of_test + of_body :]
        quiet = Evaluation(_Silence(), loops=True, keeps_derivatives=False)
        while bool(quiet._call(params["cond_jaxpr"], [*test, *carry], caller)[0]):
            carry = self._call(params["body_jaxpr"], [*body, *carry], caller)
        return carry

    def _cond(self, params: dict[str, Any], values: list[Any], caller: Caller) -> list[Any]:
        branch = min(max(int(values[0]), 0), len(params["branches"]) - 1)
        return self._call(params["branches"][branch], values[1:], caller)


class _Silence:
    def operation(self, *_: object) -> None:
        """Ignore the operation."""


_LOOPS: Final[dict[str, Callable[..., list[Any]]]] = {
    "scan": Evaluation._scan,
    "while": Evaluation._while,
    "cond": Evaluation._cond,
}
