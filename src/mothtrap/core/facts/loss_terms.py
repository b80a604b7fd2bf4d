"""Facts about the terms of losses."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class DetachedTerm(Fact, frozen=True, kw_only=True, tag=True):
    """A term of a loss that trained nothing in any sampled step, while another term did.

    `term` is its source text, and `values` are its values at the `looks` inspections. In
    `without_graph` of them it had no graph. In the other steps it reached parameters, but no
    parameter that the `optimizers` (their classes) updated. `equal`: it compares these two tensors,
    which had no graph and were equal each time. `location` is the line that adds it.
    """

    term: str
    looks: int
    without_graph: int
    values: tuple[float, ...] = ()
    optimizers: tuple[str, ...] = ()
    equal: tuple[str, str] | None = None
    location: str | None = None


class AgreeingLosses(Fact, frozen=True, kw_only=True, tag=True):
    """Two losses of the same outputs do not oppose each other, although they should.

    They are trained by two optimizers, and each has one label for all outputs, as in a GAN. In
    `looks` inspected steps, both labels were `label`; or, if `unused`, they were opposite, and only
    one of the losses was differentiated. Without labels, 1 means that a loss raises the outputs.
    `location` and `other` are the lines of the losses, the generator's first if it is known.
    """

    label: int
    looks: int
    unused: bool = False
    location: str | None = None
    other: str | None = None


class OverlapAdded(Fact, frozen=True, kw_only=True, tag=True):
    """A loss adds the overlap of prediction and target, such as a Dice coefficient.

    It did so in `added` of `looks` inspected backward passes of a line. `location` is the line of
    the loss.
    """

    looks: int
    added: int
    location: str | None = None


class OverlapBroadcast(Fact, frozen=True, kw_only=True, tag=True):
    """A loss computes the overlap of predictions with a target that has more values.

    Their product has more values than the prediction, which was broadcast, in `found` of `looks`
    inspected backward passes of a line. The shapes are those of the latest of them. `location` is
    the line of the loss.
    """

    looks: int
    found: int
    prediction_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    location: str | None = None


class OverlapOfScores(Fact, frozen=True, kw_only=True, tag=True):
    """A loss computes the overlap of a target with the raw outputs of a layer.

    It did so in `found` of `looks` inspected backward passes of a line. `shape` is the shape of the
    outputs. `twice`: the outputs passed through these two activations. `location` is the line of
    the loss.
    """

    looks: int
    found: int
    shape: tuple[int, ...] = ()
    twice: tuple[str, ...] = ()
    location: str | None = None


class CodeNoise(Fact, frozen=True, kw_only=True, tag=True):
    """A variational autoencoder scales its latent noise wrongly, or has no divergence.

    The KL divergence in the loss contains a log variance. In each of `looks` inspected backward
    passes of a line, the noise of the latent code was multiplied by `factor`: `variance` or
    `log variance` instead of the standard deviation. `factor` is empty if the job has only one
    loss, and the variance affects it only through the noise. `clipped`: parts of the code, `mean`
    or `log variance`, that are the output of a ReLU. `location` is the line of the loss.
    """

    looks: int
    factor: str
    clipped: tuple[str, ...] = ()
    location: str | None = None


class ShareAdded(Fact, frozen=True, kw_only=True, tag=True):
    """A loss adds the logarithm of a hand-written softmax, the probability of the right answer.

    It did so in `added` of `looks` inspected backward passes of a line. `location` is the line of
    the loss.
    """

    looks: int
    added: int
    location: str | None = None


class GradientPenalty(Fact, frozen=True, kw_only=True, tag=True):
    """A gradient penalty, as in WGAN-GP, takes a norm for each pixel instead of for each sample.

    It did so in `found` of `looks` inspected backward passes of a line. `gradient` is the shape of
    the gradient, and `norms` the shape of its norms. `location` is the line of the loss.
    """

    looks: int
    found: int
    gradient: tuple[int, ...]
    norms: tuple[int, ...]
    location: str | None = None
