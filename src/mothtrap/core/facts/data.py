"""Facts about the data that a model is trained and evaluated on."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class LoaderBegan(Fact, frozen=True, kw_only=True, tag=True):
    """A loader of batches began its first pass over its data.

    `loader` is a label, `location` the line that iterates over it. `sampler`: `sequential`,
    `shuffled`, `with_replacement`, `iterable` (the data decide on their order, in each of
    `workers` processes) or `own` (one that the user wrote). `samples`, `batch_size` and
    `batches` (in a pass) are None where unknown. `in_order`: batches come in the order
    in which they were drawn, whichever process is ready first.
    """

    loader: str
    sampler: str
    workers: int = 0
    samples: int | None = None
    batch_size: int | None = None
    batches: int | None = None
    in_order: bool = True
    location: str | None = None


class BatchesLoaded(Fact, frozen=True, kw_only=True, tag=True):
    """Batches that a loader gave in one pass so far.

    `repeated` of them were seen before in the same pass, whole and bit by bit, so far as
    one looks; batches whose rows are all the same do not count. For `other_indices` of them the
    sampler drew other indices into the data; None where those are unknown. `equal_rows` is the
    chance that two rows of the pass are equal. `rows` is the size of the first repeated batch.
    `ended`: the pass is over. `trained`: a model was trained on the loader's batches; else they
    are for an evaluation.
    """

    loader: str
    sampler: str
    workers: int
    pass_number: int
    batches: int
    repeated: int
    rows: int = 0
    other_indices: int | None = None
    equal_rows: float = 0.0
    ended: bool = False
    trained: bool = True
    location: str | None = None


class RowsRescaled(Fact, frozen=True, kw_only=True, tag=True):
    """The same samples of a loader come with other values in each pass, by one constant factor.

    In pass `passes` the values of `tensor` were `scale` times those of the pass before plus a
    constant (`offset`, in standard deviations), for all `samples` that were compared, and
    so in the pass before. `first_step` is the step at which the first changed pass began.
    """

    loader: str
    tensor: str
    scale: float
    offset: float
    samples: int
    passes: int
    first_step: int
    evaluates: bool = False
    location: str | None = None


class OneBatchUsed(Fact, frozen=True, kw_only=True, tag=True):
    """All of the last `steps` trained on the same batch of a loader, which gave others.

    `unused` batches of the loader came since `first_step` and were given to no model.
    """

    loader: str
    steps: int
    unused: int
    first_step: int


class NonfiniteInput(Fact, frozen=True, kw_only=True, tag=True):
    """A tensor that came from the data holds NaN or Inf; masks are left out.

    `tensor` is its place in the loader's batch, or the argument of the model. `source` is
    the loader's label, or the path of the model. `nan` and `inf` count elements, `rows`
    are the first few rows concerned of `row_count`, `samples` their indices in the data
    where the loader's sampler told them. `computed`: all that the loader gave for the step
    was finite, so the script has made these values.
    """

    tensor: str
    source: str
    from_loader: bool
    nan: int
    inf: int
    rows: tuple[int, ...] = ()
    row_count: int = 0
    samples: tuple[int, ...] = ()
    computed: bool = False
    location: str | None = None


class InputDistribution(Fact, frozen=True, kw_only=True, tag=True):
    """Mean and standard deviation of one floating-point argument of a model in one call.

    `module` is the path of the module that user code called.
    """

    module: str
    argument: str
    rows: int
    mean: float
    std: float
    location: str | None = None


class RowsShared(Fact, frozen=True, kw_only=True, tag=True):
    """Number of rows of an evaluation's inputs that were trained on, bit by bit, so far as seen.

    `source` is the loader's label, or says which calls of the model are meant. `train_rows`
    counts distinct rows of training, `eval_rows` those of the evaluation, `shared` of them
    the ones found in training. `expected_share`: what chance gives, judged by how often
    rows are equal within a training batch. `copied`: rows that come several times, though
    they are too far from all others to be equal by chance, are among the shared ones.
    `share_of_all` is the share of the evaluation's rows that were trained on, each counted as
    often as it comes; None in older runs. `earlier`: they were trained on in an earlier training
    of the same model, which went on with its weights.
    """

    module: str
    argument: str
    source: str
    train_rows: int
    eval_rows: int
    shared: int
    expected_share: float = 0.0
    copied: bool = False
    share_of_all: float | None = None
    earlier: bool = False
    location: str | None = None


class IndicesShared(Fact, frozen=True, kw_only=True, tag=True):
    """A loader that is trained on and one that is evaluated on draw from the same data.

    The numbers are of distinct indices into that data; `shared` are in both.
    """

    train_loader: str
    eval_loader: str
    train_samples: int
    eval_samples: int
    shared: int
    location: str | None = None


class SplitDrawn(Fact, frozen=True, kw_only=True, tag=True):
    """Indices that loaders of training and of evaluation draw from one set of data.

    `data` is the class of that set, `size` its length. `trained` and `evaluated` are packed
    (`core.packed`), distinct and sorted.
    """

    data: str
    size: int
    trained: str
    evaluated: str
    eval_loader: str
    location: str | None = None


class TargetOrder(Fact, frozen=True, kw_only=True, tag=True):
    """The targets of the batches that one loss call site was given, in order.

    One entry per optimizer step in `steps`: for a class loss the number of targets per
    class in `counts` (neighboring classes together where there are many), else number,
    mean and variance of the targets in `moments`; the other one is empty. `sampler` is
    that of the loader whose batches were trained on, None without a loader.
    """

    site: str
    steps: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...] = ()
    moments: tuple[tuple[float, float, float], ...] = ()
    loader: str | None = None
    sampler: str | None = None
    location: str | None = None
