"""Facts about modules and parameters: what gradients reach, what is frozen, their numeric range."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class UnreachedModule(Fact, frozen=True, kw_only=True, tag=True):
    """A module with parameters of an optimizer that no backward has reached so far.

    `parameters` are their names, `elements` their size; `share` is that size relative to
    all that the optimizer holds. `own_steps`: steps of the optimizer so far; 0 = told
    before, but reached since. The calls of the module are counted from its optimizer's
    second step on: `runs` in forwards that make a graph, `runs_without_graph` those of
    them whose output hung on no gradient, `runs_in_evaluation` in forwards without a graph;
    `calls_are_seen` is False where the module runs out of sight.
    `upstream`: it ran before every module that was reached. `detached_before`: the module
    that was called with its output, cut off; None where that was not seen. `given_out`: the
    model returned a tensor that depends on it. `changed`: something else changed its values.
    `untouched`: its values look as the framework initializes them; None = cannot be told. `since`:
    the first of the counted steps, of which not each is looked at; None in older runs.
    """

    module: str
    parameters: tuple[str, ...]
    elements: int
    share: float
    own_steps: int
    runs: int = 0
    runs_without_graph: int = 0
    runs_in_evaluation: int = 0
    calls_are_seen: bool = True
    upstream: bool = False
    detached_before: str | None = None
    given_out: bool = False
    changed: bool = False
    untouched: bool | None = None
    location: str | None = None
    since: int | None = None


class HiddenParameters(Fact, frozen=True, kw_only=True, tag=True):
    """Parameters in a plain attribute of a module, where `parameters()` does not see them.

    `holder` is the attribute (`body.layers`), `what` what it holds (`list of 3 Linear`).
    No optimizer holds the parameters. `reached_steps`: steps of the model in which
    one of them got a gradient that is not zero, of those looked at; `since` is the first of
    them, None in older runs. `changed`: a value was changed.
    """

    holder: str
    what: str
    parameters: int
    elements: int
    reached_steps: int
    changed: bool
    location: str | None = None
    since: int | None = None


class FrozenParameters(Fact, frozen=True, kw_only=True, tag=True):
    """Parts of a trained model that do not require a gradient, in elements.

    `untouched` are those frozen ones that look as the framework initializes them, `judged`
    those for which that can be told. `modules` are some that are untouched, the largest first.
    `unowned`: they are not frozen by the script, but held by no optimizer.
    """

    root: str
    elements: int
    frozen: int
    judged: int
    untouched: int
    modules: tuple[str, ...] = ()
    unowned: bool = False
    location: str | None = None


class HalfPrecision(Fact, frozen=True, kw_only=True, tag=True):
    """Values of a tensor in a type with a narrow range, looked at now and then.

    `tensor` is `kind:name`. `largest` is the largest finite absolute value, `limit` the
    largest that the type holds. Of the values that are not zero `small` is the share below
    the smallest normal number of the type; `zero` is the share of zeros.
    """

    tensor: str
    module: str
    dtype: str
    elements: int
    largest: float
    limit: float
    small: float
    zero: float
    location: str | None = None


class ShapeChanged(Fact, frozen=True, kw_only=True, tag=True):
    """A tensor (`kind:name`) whose shape is followed has another one than before, or is new."""

    tensor: str
    shape: tuple[int, ...]
