"""Facts about where NaN and Inf appear first."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class NonfiniteModule(Fact, frozen=True, kw_only=True, tag=True):
    """The first module, in execution order, with NaN or infinite output from finite inputs.

    It ran in a step whose loss or applied gradient was not finite. `nan` and `inf` count elements
    of the output. `inputs_known` is False if an earlier output no longer existed when it was
    inspected, so an earlier module may be the origin.
    `given`: modules of this kind do not produce NaN, so an operation between modules did, and the
    input already contained it.
    """

    module: str
    module_type: str
    nan: int
    inf: int
    inputs_known: bool = True
    parameters_finite: bool = True
    given: bool = False
    location: str | None = None


class FirstBadOperation(Fact, frozen=True, kw_only=True, tag=True):
    """The first operation with a non-finite result from finite inputs, under the loss of a step.

    `operation` is the name that users know (`torch.log`). `since`: from this operation on, it is
    unknown whether results were finite; None if there is none. `module` is the path of the module
    in which it ran; empty outside of modules. `inputs` are the ranges of its inputs, as far as the
    graph keeps them (`input from 0 to 3.2`). `source` is the operation that produced its first
    input (`relu`). `rows` are the first few non-finite rows of its result; empty if all are, or if
    unknown. `overflowed` is the 16-bit type whose range was exceeded, such as `float16`.
    `backward`: its result is finite, but its derivative is not. `derivative` is the function whose
    derivative the operation computes; "" if it computes none, or this is unknown.
    """

    operation: str
    since: str | None = None
    module: str = ""
    inputs: tuple[str, ...] = ()
    source: str = ""
    rows: tuple[int, ...] = ()
    overflowed: str = ""
    backward: bool = False
    derivative: str = ""
    location: str | None = None


class FiniteOutputs(Fact, frozen=True, kw_only=True, tag=True):
    """All `modules` had finite outputs, although the loss or gradient was not finite."""

    modules: int
