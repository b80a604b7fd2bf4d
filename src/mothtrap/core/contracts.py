"""Layers and inputs of a script, as `mothtrap check` saves them in a file of invariants."""

from __future__ import annotations

import msgspec


class Layer(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="layer",
    tag_field="kind",
):  # fmt: skip
    """A layer of the model.

    Attributes:
        name: path of the layer.
        type: its class.
        parameters: number of its parameters, without the parameters of its sublayers.
        trained: whether its parameters require a gradient.
        output: shape of its output without the batch; empty if it was not called.
    """

    name: str
    type: str
    parameters: int = 0
    trained: bool = False
    output: tuple[int, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the entry as a sentence."""
        shape = " x ".join(map(str, self.output))
        given = f" with outputs of {shape}" if shape else ""
        return f"layer {self.name} is a {self.type}{given} and {self.parameters:,} parameters"


class Input(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="input",
    tag_field="kind",
):  # fmt: skip
    """Values of an input of a data set.

    Attributes:
        data: `train` or `evaluation`.
        number: position of the input in a sample, from 0.
        dtype: type of its values.
        shape: shape of a sample; empty if samples differ in shape.
        at_least: smallest value; None if values are not numbers.
        at_most: largest value.
        finite: no value was NaN or infinite.
    """

    data: str
    number: int
    dtype: str
    shape: tuple[int, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    finite: bool = True

    @property
    def sentence(self) -> str:
        """Return the entry as a sentence."""
        shape = " x ".join(map(str, self.shape))
        given = f"{self.dtype} of {shape}" if shape else self.dtype
        if self.at_least is None:
            return f"input {self.number} of {self.data} is {given}"
        bounds = f"from {self.at_least:g} to {self.at_most:g}"
        return f"input {self.number} of {self.data} is {given} {bounds}"


Entry = Layer | Input
