"""Facts about modules and parameters: gradients that reach them, freezing, numeric range."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class UnreachedModule(Fact, frozen=True, kw_only=True, tag=True):
    """A module with optimizer parameters that no backward pass has reached so far.

    `parameters` are their names, and `elements` their size; `share` is their share of all elements
    in the optimizer. `own_steps` is the number of the optimizer's steps so far; 0 = the module was
    reported before, and has been reached since. Calls of the module are counted from the second
    step of its optimizer: `runs` in forward passes with a graph, `runs_without_graph` in forward
    passes with a graph whose output required no gradient, `runs_in_checkpoint` in such passes
    inside a reentrant checkpoint whose inputs need no gradient, and `runs_in_evaluation` in forward
    passes without a graph; `calls_are_seen` is False if its calls are not visible. `upstream`: it
    ran before every module that was reached. `detached_before`: the module that was called with its
    detached output; None if unknown. `given_out`: the model returned a tensor that depends on it.
    `changed`: its values changed in another way. `untouched`: its values look like the framework's
    initial values; None = unknown. `since`: the first of the counted steps, not all of which are
    inspected; None in older runs.
    """

    module: str
    parameters: tuple[str, ...]
    elements: int
    share: float
    own_steps: int
    runs: int = 0
    runs_without_graph: int = 0
    runs_in_evaluation: int = 0
    runs_in_checkpoint: int = 0
    calls_are_seen: bool = True
    upstream: bool = False
    detached_before: str | None = None
    given_out: bool = False
    changed: bool = False
    untouched: bool | None = None
    location: str | None = None
    since: int | None = None


class HiddenParameters(Fact, frozen=True, kw_only=True, tag=True):
    """Parameters in a plain attribute of a module, which `parameters()` does not find.

    `holder` is the attribute (`body.layers`), and `what` its content (`list of 3 Linear`). The
    parameters are in no optimizer. `reached_steps`: inspected steps of the model in which one of
    them got a nonzero gradient; `since` is the first of them, None in older runs. `changed`: a
    value has changed.
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

    `untouched` is the number of frozen elements that look like the framework's initial values,
    `judged` the number of elements for which this can be determined. `modules` are some of the
    untouched modules, largest first. `unowned`: they are not frozen by the script, but are in no
    optimizer.
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
    """Sampled values of a tensor in a type with a narrow range.

    `tensor` is `kind:name`. `largest` is the largest finite absolute value, `limit` the largest
    value of the type. `small` is the share of the nonzero values below the smallest normal number
    of the type; `zero` is the share of zeros.
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
    """A tensor (`kind:name`) whose shape is monitored appeared, or changed its shape."""

    tensor: str
    shape: tuple[int, ...]


class FreezeWithoutEffect(Fact, frozen=True, kw_only=True, tag=True):
    """Trained parameters that the script tried to freeze with an attribute that does nothing.

    `attribute` was set to False: a misspelled one on each parameter, or `requires_grad` on a module
    (`of_module`). `holders` are the parameters or the module, at most 8 of them. `parameters` and
    `elements` count the parameters that an optimizer holds. `location` is the line that sets the
    attribute, if there is only one.
    """

    attribute: str
    holders: tuple[str, ...]
    parameters: int
    elements: int
    of_module: bool = False
    location: str | None = None


class AliasedCopy(Fact, frozen=True, kw_only=True, tag=True):
    """The variables `copy` and `model` hold the same trained model.

    The name `copy` suggests a copy. `shallow`: they hold two models that share all parameters.
    `location` is the line that assigns `copy`, if there is only one. Reported once.
    """

    copy: str
    model: str
    shallow: bool = False
    location: str | None = None


class RepeatedModule(Fact, frozen=True, kw_only=True, tag=True):
    """A container of a model holds one trained module `copies` times.

    The source creates it once and repeats the reference, as in `[Block()] * 4`. `container` is the
    path of the container, `module_type` the class of the module, `elements` the number of its
    trained parameters, and `location` the line that repeats it.
    """

    container: str
    module_type: str
    copies: int
    elements: int
    location: str | None = None


class ZeroSlope(Fact, frozen=True, kw_only=True, tag=True):
    """A loss reaches parameters only through operations whose derivative is 0, such as `sign`.

    This was so in `found` of `looks` inspected backward passes of a line. In the latest of them,
    `parameters` of `of` numbers in trained parameters were behind an `operation`, or behind several
    that are joined by "and". `layers` are the paths of their modules. `location` is the only line
    that calls such an operation, otherwise the line of the loss.
    """

    looks: int
    found: int
    operation: str
    parameters: int
    of: int
    layers: tuple[str, ...] = ()
    location: str | None = None
