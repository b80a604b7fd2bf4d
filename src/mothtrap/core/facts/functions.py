"""Facts about training functions that a framework traces or compiles."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class FunctionTraced(Fact, frozen=True, kw_only=True, tag=True):
    """Number of traces of a function so far, reported after some of them.

    `calls` is the number of calls so far, `function` is its name, and `arguments` contains types
    and shapes of the latest two traced calls, as text.
    """

    function: str
    traces: int
    calls: int
    arguments: tuple[str, ...] = ()
    location: str | None = None


class ModelCompiled(Fact, frozen=True, kw_only=True, tag=True):
    """Settings with which a model was compiled for training, reported at its first step.

    `runs_eagerly`: the model runs step by step in Python instead of as a compiled program;
    `whole_process` if this was set for all functions. `policy` is the type in which it computes.
    `loss_scaled`: in half precision, the loss is multiplied by a scale before the gradients are
    computed; None without half precision, or if unknown. `linear_layers`: hidden layers of a model
    without any nonlinearity before its last layer; `linear_location` is the line that created the
    first.
    """

    model: str
    model_type: str
    runs_eagerly: bool = False
    whole_process: bool = False
    jit_compile: bool = False
    steps_per_execution: int = 1
    policy: str = "float32"
    loss_scaled: bool | None = None
    linear_layers: tuple[str, ...] = ()
    linear_location: str | None = None
    location: str | None = None


class TrainableIgnored(Fact, frozen=True, kw_only=True, tag=True):
    """`fit` uses a compiled training step although `trainable` was changed since it was compiled.

    Of the `elements` of the model's weights, `unfrozen` are trainable now, but the step does not
    update them, and `frozen` are no longer trainable, but the step updates them. `layers` are some
    of these layers, and `location` is the line of `fit`.
    """

    model: str
    elements: int
    unfrozen: int = 0
    frozen: int = 0
    layers: tuple[str, ...] = ()
    location: str | None = None
