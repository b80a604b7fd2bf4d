"""Facts about layers in a few sampled steps: their inputs, outputs, and weights.

A weighted layer is a module with its own weight matrix (linear, convolution, recurrent). Values
are from a sample of the rows of a batch, and finite: tensors with NaN or Inf are left out.
"""

from __future__ import annotations

from typing import Final

import msgspec

from mothtrap.core.fact import Fact

DISTANCES: Final = "distances"
"""`DataTaken.layer_type` of a model that compares rows by their distance."""
VARIANCES: Final = "variances"
"""`DataTaken.layer_type` of a transformer that keeps the directions with the largest variance."""


class DataTaken(Fact, frozen=True, kw_only=True, tag=True):
    """A layer with weights received data: a float tensor that no trained layer produced.

    Attributes:
        shape: shape of the tensor.
        gain: root mean square of the weights times the square root of the fan-in, roughly the
            factor by which the layer scales its inputs.
        rows: number of inspected rows, of `features` values each.
        zeros: share of exact zeros.
        nonzero_rms: root mean square of all other values.
        normalized: the next module normalizes the output of the layer.
        grid: the layer is a convolution, and its features are channels.
        feature_means: mean of each feature; empty if there are too many features.
        feature_stds: standard deviation of each feature; also empty then.
        feature_ties: share of the rows with the feature's median value; 1 = constant.
        partners: for each feature, the earlier feature with the highest correlation; empty if it
            was not computed.
        correlations: absolute value of that correlation.
        cut_at: line that detached the tensor, if layers with a graph ran before it in the forward
            pass and the tensor is not an input of the root.
        computed: judging by its size, the tensor is neither an input of the root module nor several
            concatenated inputs, so the model computed it, such as an embedding of a time.
    """

    layer: str
    layer_type: str
    shape: tuple[int, ...]
    gain: float
    rows: int
    features: int
    mean: float
    std: float
    smallest: float
    largest: float
    zeros: float
    nonzero_rms: float
    normalized: bool = False
    grid: bool = False
    feature_means: tuple[float, ...] = ()
    feature_stds: tuple[float, ...] = ()
    feature_ties: tuple[float, ...] = ()
    partners: tuple[int, ...] = ()
    correlations: tuple[float, ...] = ()
    cut_at: str | None = None
    computed: bool = False
    location: str | None = None

    @property
    def rms(self) -> float:
        """Root mean square of all values."""
        return float((self.mean**2 + self.std**2) ** 0.5)


class LayerScale(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Root mean square of the input and output of one layer with weights.

    Attributes:
        variance: variance of the output.
        gain: as in `DataTaken`.
        normalized: the next module normalizes the output of the layer.
        last: its output is an output of the root module.
    """

    layer: str
    layer_type: str
    input_rms: float
    output_rms: float
    variance: float
    gain: float
    fan_in: int
    normalized: bool = False
    last: bool = False
    location: str | None = None


class ForwardScales(Fact, frozen=True, kw_only=True, tag=True):
    """Output sizes of the weighted layers of a root module, in order of execution.

    Attributes:
        normalizes: a normalizing module ran anywhere in the root.
    """

    root: str
    layers: tuple[LayerScale, ...]
    normalizes: bool = False


class OutputSpread(Fact, frozen=True, kw_only=True, tag=True):
    """Spread of an output of a trained root module across the rows of a batch.

    Attributes:
        place: identifies one of several outputs.
        spread: root mean square, over units, of the standard deviation over rows.
        rms: root mean square of all values.
        largest: largest difference between any row and the first.
        inputs_differ: the rows of the root's inputs are not all the same; None = unknown.
        input_spread: spread of the root's input with as many values per row as this output, of
            which the output may be a reconstruction; None if there is none.
    """

    root: str
    place: str
    shape: tuple[int, ...]
    spread: float
    rms: float
    largest: float
    inputs_differ: bool | None
    input_spread: float | None = None
    location: str | None = None


class UnitInputs(Fact, frozen=True, kw_only=True, tag=True):
    """Inputs of the units of a saturating module (sigmoid, tanh).

    Attributes:
        function: `sigmoid` or `tanh`.
        units: number of sampled units.
        edges: bounds of the intervals in which inputs are counted.
        counts: for each unit, the number of its inputs in each interval between `edges`, including
            the open ends: `units` times `len(edges) + 1` numbers.
        last: its output is an output of the root module.
    """

    module: str
    module_type: str
    function: str
    units: int
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    last: bool = False
    location: str | None = None


class RouterLoad(Fact, frozen=True, kw_only=True, tag=True):
    """Load of the experts of a mixture, as its router distributed the rows of a batch.

    Attributes:
        router: path of the layer that scores the experts.
        experts: path of the experts.
        shares: for each expert, the share of the rows for which it had the highest score.
    """

    router: str
    experts: str
    rows: int
    shares: tuple[float, ...]
    location: str | None = None


class AttentionLook(Fact, frozen=True, kw_only=True, tag=True):
    """Attention weights and scores of one operation, recomputed for some rows of a batch.

    Attributes:
        number: position among the attention operations of the graph, in order of execution.
        of: number of these operations.
        entropies: for each head, the entropy of a query's weights relative to the logarithm of its
            number of choices, as a mean over queries with at least 8 choices; 0 = all weight on one
            choice, 1 = uniform. Empty if no query has that many.
        largest_logit: largest absolute score; None if only weights are available.
        scale: factor of the products of queries and keys; None = unknown.
        width: number of elements of a query or key; None = unknown.
        top_weight: mean over queries of the largest weight; None = unknown.
        scaled_top_weight: the same with a scale of 1 / sqrt(width).
        location: line that called backward.
    """

    number: int
    of: int
    heads: int
    keys: int
    entropies: tuple[float, ...]
    largest_logit: float | None = None
    scale: float | None = None
    width: int | None = None
    top_weight: float | None = None
    scaled_top_weight: float | None = None
    location: str | None = None


class AttentionAxis(Fact, frozen=True, kw_only=True, tag=True):
    """The softmax of an attention runs over an axis over which the values are not summed.

    Its scores have the `shape`, and `axis` is the axis of the softmax: 0, the batch, or 1 of 4, the
    heads. `location` is the line of the softmax if there is only one, otherwise the line of the
    loss.
    """

    shape: tuple[int, ...]
    axis: int
    location: str | None = None


class UnmaskedPadding(Fact, frozen=True, kw_only=True, tag=True):
    """A model with bidirectional attention received padded sequences without a mask.

    `token` is the padding token of its configuration. It fills `share` of the tokens, at the
    beginnings and ends of `padded_rows` of the `rows` sequences. `masked`: the model received a
    mask of ones. `module` is its path, `module_type` its class, and `location` the line that calls
    it.
    """

    module: str
    module_type: str
    token: int
    share: float
    padded_rows: int
    rows: int
    masked: bool = False
    location: str | None = None


class PaddingWeights(Fact, frozen=True, kw_only=True, tag=True):
    """Attention to padding in `looks` inspected backward passes of a line.

    `token` pads sequences at their ends. Of `rows` inspected padded rows, counted once for each
    attention layer, `inverted` give weight to the padding and to nothing else. In `by_query` of
    them, all words attend to the padding, and the padding attends to all tokens equally.
    `location` is the line of the loss.
    """

    looks: int
    token: int
    rows: int
    inverted: int
    by_query: int
    location: str | None = None


class PaddingLabeled(Fact, frozen=True, kw_only=True, tag=True):
    """A model that computes its own loss received labels for padding.

    Of the `labeled` positions whose label counts in the loss, `padded` are masked as padding.
    `module` is its path, `module_type` its class, and `location` the line that calls it.
    """

    module: str
    module_type: str
    padded: int
    labeled: int
    location: str | None = None


class MaskOfOnes(Fact, frozen=True, kw_only=True, tag=True):
    """A mask of floating-point zeros and ones of the given `shape` is added to attention scores.

    So every key can be attended to. `module` is the path of the attention; "" for a function.
    `location` is the line that created the module, or that called backward.
    """

    shape: tuple[int, ...]
    module: str = ""
    location: str | None = None


class SequenceAxes(Fact, frozen=True, kw_only=True, tag=True):
    """A recurrent or attention module that treats axis 0 of its input as the sequence.

    The input has the `shape` (sequence, batch, features), from the module's point of view
    (`batch_first` is not set). `samples` is the number of samples that a loader drew for the batch;
    None if the batch does not come from a loader. `location` is the line that created the module.
    """

    module: str
    module_type: str
    shape: tuple[int, ...]
    samples: int | None = None
    location: str | None = None


class SingleTimeSteps(Fact, frozen=True, kw_only=True, tag=True):
    """Trained recurrent layers whose input is one time step, and which begin with a zero state.

    `layers` are their names, `features` the number of values in the time step of the first of them.
    `location` is the line that created it. Reported once for each model.
    """

    layers: tuple[str, ...]
    features: int
    location: str | None = None


class RowTaken(Fact, frozen=True, kw_only=True, tag=True):
    """A model predicts from the positions of the last row of a batch of a recurrent layer.

    It did so in `found` of `looks` inspected backward passes of a line. The layer's output has the
    `shape` (batch, sequence, units). `location` is the line of the loss.
    """

    looks: int
    found: int
    shape: tuple[int, ...]
    location: str | None = None


class PositionAxis(Fact, frozen=True, kw_only=True, tag=True):
    """A module adds vectors that differ along axis 0 of its input, which is the batch.

    The input has the `shape` (batch, sequence, features); the vectors are equal along the sequence.
    `location` is the line that created the module. Reported once for each module.
    """

    module: str
    shape: tuple[int, ...]
    location: str | None = None


class ImageChannels(Fact, frozen=True, kw_only=True, tag=True):
    """Mean differences between the values of images and the values after them in memory.

    The images have the `shape` (rows, 3, height, width) and are the input of `module`. `neighbor`
    is the difference from the first or the second value after each value, whichever is smaller.
    `third` is the difference from the third value.
    """

    module: str
    shape: tuple[int, ...]
    neighbor: float
    third: float
    location: str | None = None


class InitialWeights(Fact, frozen=True, kw_only=True, tag=True):
    """The weights of a layer before the first step, with their first gradient.

    Attributes:
        rms: root mean square of the weights.
        std: standard deviation of the weights.
        gradient_range: distance between the 5th and the 95th percentile of (a sample of) the
            gradient; None without a gradient.
    """

    name: str
    layer: str
    layer_type: str
    units: int
    fan_in: int
    rms: float
    std: float
    gradient_range: float | None = None
    location: str | None = None


class IdenticalUnits(Fact, frozen=True, kw_only=True, tag=True):
    """All units of a layer have the same weights and get the same gradient.

    Reported if this was true of a weight before the first step and still is.

    Attributes:
        looks: number of checks so far.
        zero: all weights are 0.
        gradient_zero: the gradient is 0, too.
        moved: parameters of the same optimizer have changed since the first check.
    """

    name: str
    layer: str
    layer_type: str
    units: int
    looks: int
    zero: bool
    gradient_zero: bool
    moved: bool
    location: str | None = None
