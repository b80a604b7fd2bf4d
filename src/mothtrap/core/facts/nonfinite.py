"""Facts about where NaN and Inf appear first."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class NonfiniteModule(Fact, frozen=True, kw_only=True, tag=True):
    """The first module, in execution order, that made NaN or infinite output of finite inputs.

    It ran in a step whose loss or applied gradient was not finite.
    `nan` and `inf` count elements of the output. `inputs_known` is False when an
    earlier output was gone by the time of looking, so an earlier module may be the origin.
    `given`: it is of a kind that makes no NaN of its own, so what it was given held it:
    computed by an operation between modules.
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
    """The operation at which the loss of a step stopped to be finite: what it was given was.

    `operation` is in the words of users (`torch.log`). `since`: of the operations from this one
    on it is not known whether their results were finite; None where there is none. `module` is
    the path of the module in which it ran, empty outside of all. `inputs` are ranges of what it
    was given, so far as the graph keeps it (`input from 0 to 3.2`). `source` is the
    operation that made its first input (`relu`). `rows` are the first few
    of its result that are not finite; empty where all are, or that is not known.
    `overflowed` is the type of 16 bits whose range it exceeded, such as `float16`.
    `backward`: its result is finite, and its derivative is not.
    """

    operation: str
    since: str | None = None
    module: str = ""
    inputs: tuple[str, ...] = ()
    source: str = ""
    rows: tuple[int, ...] = ()
    overflowed: str = ""
    backward: bool = False
    location: str | None = None


class FiniteOutputs(Fact, frozen=True, kw_only=True, tag=True):
    """The outputs of all `modules` that were watched were finite; loss or gradient was not."""

    modules: int
