"""Facts about layers in a few sampled steps: what they take and give, their weights.

A weighted layer is a module with a matrix of weights of its own (linear, convolution,
recurrent). Values are over a sample of the rows of a batch, and finite: what held NaN or
Inf was not looked at.
"""

from __future__ import annotations

import msgspec

from mothtrap.core.fact import Fact


class DataTaken(Fact, frozen=True, kw_only=True, tag=True):
    """A weighted layer was given data: a float tensor that no trained layer had made.

    `gain` is the root mean square of the weights times the square root of the fan-in: what
    the layer multiplies inputs of that size by, about. `normalized`: the next module
    normalizes the output of the layer. `grid`: the layer is a convolution, its features
    are channels.
    `rows` of `features` values each were looked at; `zeros` is the share of exact zeros,
    `nonzero_rms` the root mean square of the other values, `smallest` and `largest` the
    extremes. `feature_means`, `feature_stds` and `feature_ties` (share of the rows that have
    the feature's median value: 1 = constant) go by feature; empty when there are too many.
    `partners` gives for each feature the earlier one that it is most correlated with,
    `correlations` how much (absolute); empty when not looked at.
    `cut_at`: line that detached the tensor, where layers with a graph ran before in the
    forward and the tensor is no input of the root.
    `computed`: by its size the tensor is no input of the root and not several of them joined: the
    model made it, such as an embedding of a time.
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
    """Sizes (root mean squares) of what one weighted layer took and gave.

    `gain` as in `DataTaken`. `normalized`: the next module normalizes its output.
    `variance` is that of the output.
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
    """The sizes of what the weighted layers of a root put out, in order of execution.

    `normalizes`: a normalizing module ran anywhere in the root.
    """

    root: str
    layers: tuple[LayerScale, ...]
    normalizes: bool = False


class OutputSpread(Fact, frozen=True, kw_only=True, tag=True):
    """Spread of an output of a trained root between the rows of a batch.

    `place` says which of several outputs. `spread` is the standard deviation over rows,
    root mean square over units, `rms` that of all values, `largest` the greatest
    difference between any row and the first. `inputs_differ`: the rows of what the root
    was called with are not all the same; None = unknown.
    """

    root: str
    place: str
    shape: tuple[int, ...]
    spread: float
    rms: float
    largest: float
    inputs_differ: bool | None
    location: str | None = None


class UnitInputs(Fact, frozen=True, kw_only=True, tag=True):
    """Inputs of the units of a saturating module (sigmoid, tanh).

    `function` is `sigmoid` or `tanh`. `counts` holds for each of the sampled `units` how
    many of its inputs fell between the `edges`, one number for each gap and the open ends:
    `units` times `len(edges) + 1` numbers. `last`: its output is an output of the root.
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
    """Load of the experts of a mixture, as its router spread the rows of a batch.

    `shares` goes by expert: of the rows, those whose highest score was its. `experts` is
    the path of the experts, `router` of the layer that scores them.
    """

    router: str
    experts: str
    rows: int
    shares: tuple[float, ...]
    location: str | None = None


class AttentionLook(Fact, frozen=True, kw_only=True, tag=True):
    """The attention of one operation, recomputed for some rows of a batch.

    `number` counts the `of` attention operations of the graph in order of execution.
    `entropies` goes by head: of the weights of a query, relative to the logarithm of the
    choices it has, mean over queries with at least 8 choices; 0 = all on one, 1 = uniform.
    `entropies` is empty where no query has so many.
    `largest_logit` is the largest absolute score; None where only weights are kept.
    `scale` is the number that products of queries and keys, of `width` numbers each, are
    multiplied by. `top_weight` is the mean over queries of the largest weight,
    `scaled_top_weight` what it would be with a scale of 1 / sqrt(width). None = not known.
    `location` is the line that called the backward.
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


class MaskOfOnes(Fact, frozen=True, kw_only=True, tag=True):
    """A mask of floating-point zeros and ones of the given `shape` is added to attention scores.

    That keeps no key from being attended to. `module` is the path of the attention, "" where it is
    a function. `location` is the line that made the module, or that called the backward.
    """

    shape: tuple[int, ...]
    module: str = ""
    location: str | None = None


class SequenceAxes(Fact, frozen=True, kw_only=True, tag=True):
    """A recurrence or an attention that takes axis 0 of its input for the sequence.

    The input has the `shape` (sequence, batch, features), as the module sees it (`batch_first` is
    not set). `samples` is the number of samples that a loader drew for the batch; None if the
    batch comes from no loader. `location` is the line that made the module.
    """

    module: str
    module_type: str
    shape: tuple[int, ...]
    samples: int | None = None
    location: str | None = None


class InitialWeights(Fact, frozen=True, kw_only=True, tag=True):
    """The weights of a layer before the first step, with their first gradient.

    `rms` and `std` are of the weights, `gradient_range` is the distance between the 5th and
    the 95th percentile of the gradient (of a sample of it); None without a gradient.
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
    """The units of a layer have the same weights, and get the same gradient.

    Said when a weight was found so before the first step and still is, `looks` times by
    now. `zero`: the weights are all 0; `gradient_zero`: so is the gradient. `moved`:
    parameters of the same optimizer have changed since the first look.
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
