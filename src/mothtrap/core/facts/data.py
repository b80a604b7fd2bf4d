"""Facts about the data that a model is trained and evaluated on."""

from __future__ import annotations

from mothtrap.core.fact import Fact


class LoaderBegan(Fact, frozen=True, kw_only=True, tag=True):
    """A loader of batches began its first pass over its data.

    `loader` is a label, `location` the line that iterates over it. `sampler` is `sequential`,
    `shuffled`, `with_replacement`, `iterable` (the dataset sets the order, in each of `workers`
    processes) or `own` (a custom sampler). `samples`, `batch_size` and `batches` (per pass) are
    None if unknown. `in_order`: batches arrive in the order in which they were drawn, regardless of
    which process is ready first. `weights` is the number of weights of a `WeightedRandomSampler`,
    which draws only samples that have a weight; None for other samplers.
    """

    loader: str
    sampler: str
    workers: int = 0
    samples: int | None = None
    batch_size: int | None = None
    batches: int | None = None
    in_order: bool = True
    weights: int | None = None
    location: str | None = None


class StatesKept(Fact, frozen=True, kw_only=True, tag=True):
    """Recurrent layers keep their state from batch to batch while a model is trained.

    A row of a batch continues the row at the same place in the batch before. `layers` are their
    names. `shuffled`: the rows are drawn in a new order in each pass, in `batches` batches.
    `location` is the line that trains the model.
    """

    layers: tuple[str, ...]
    shuffled: bool
    batches: int
    location: str | None = None


class BatchesLoaded(Fact, frozen=True, kw_only=True, tag=True):
    """Batches that a loader has returned in one pass so far.

    `repeated` is the number of batches that occurred before in the same pass, bit for bit, as far
    as was checked; batches whose rows are all equal do not count. For `other_indices` of them, the
    sampler drew different indices into the data; None if these are unknown. `equal_rows` is the
    probability that two rows of the pass are equal. `rows` is the size of the first repeated batch.
    `ended`: the pass is over. `trained`: a model was trained on the loader's batches; otherwise
    they are for an evaluation. `source` is an array of the script with `of_rows` rows that contains
    the rows of a repeated batch; "" if unknown.
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
    source: str = ""
    of_rows: int = 0
    location: str | None = None


class RowsRescaled(Fact, frozen=True, kw_only=True, tag=True):
    """The same samples of a loader have different values in each pass, by a constant factor.

    In pass `passes`, the values of `tensor` were `scale` times the values of the previous pass plus
    a constant (`offset`, in standard deviations), for all `samples` that were compared. The same
    was true in the pass before. `first_step` is the step at which the first changed pass began.
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
    """All of the last `steps` trained on the same batch of a loader that returned other batches.

    `unused` batches of the loader have arrived since `first_step` without being passed to a model.
    Or a function `loader` gets `of_rows` rows, and used the same `rows` of them in all of `steps`
    inspected steps; then `location` is its line. Or the script passed the batch of the step before
    to the function `loader` again, as a new array, in `steps` steps. `source` is the script's
    expression for the data: an array of `of_rows` rows, or an iterable with `unused` other batches.
    """

    loader: str
    steps: int
    unused: int
    first_step: int
    rows: int = 0
    of_rows: int = 0
    source: str = ""
    location: str | None = None


class RowsDrawn(Fact, frozen=True, kw_only=True, tag=True):
    """Rows of the first `batches` batches of a model that gets its data without a loader.

    The largest batch has `rows` rows. At most the first 256 rows of a batch are compared, and
    `drawn` in all batches. `distinct` of these rows differ. `same` batches had exactly the rows of
    the previous one. Of the rows of all other batches, a share of `kept` was in the previous batch,
    and a share of `usual` in a batch long before, as happens by chance. `returned` is the share of
    rows that came back after other batches. In a share of `shifted` batches, the rows only moved.
    `irregular`: the numbers of consecutive equal batches follow no plan. `anew` batches were a new
    tensor. `source` is the variable that contains all of the rows, unchanged, and `source_rows` the
    number of its distinct rows; "" and 0 if there is none.
    """

    module: str
    argument: str
    first_step: int
    batches: int
    rows: int
    drawn: int
    distinct: int
    same: int
    kept: float
    usual: float
    returned: float
    shifted: float
    irregular: bool
    anew: int
    source: str = ""
    source_rows: int = 0
    location: str | None = None


class NonfiniteInput(Fact, frozen=True, kw_only=True, tag=True):
    """A tensor from the data contains NaN or Inf; masks are left out.

    `tensor` is its position in the loader's batch, or the argument of the model. `source` is the
    loader's label, or the path of the model. `nan` and `inf` count elements, `rows` are the first
    few of `row_count` affected rows, and `samples` their indices in the data if the loader's
    sampler provided them. `computed`: all values from the loader in this step were finite, so the
    script computed these values.
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

    `module` is the path of the module that user code called. `windows`: the first rows of an
    evaluation are windows of one series, each one entry later than the row before. The columns of a
    table (last axis) are also described one by one in the first calls of each mode, from a sample
    of `column_rows` rows: mean, standard deviation, and share of the rows with the median value.
    """

    module: str
    argument: str
    rows: int
    mean: float
    std: float
    windows: bool = False
    column_rows: int = 0
    column_means: tuple[float, ...] = ()
    column_stds: tuple[float, ...] = ()
    column_ties: tuple[float, ...] = ()
    location: str | None = None


class RowsShared(Fact, frozen=True, kw_only=True, tag=True):
    """Number of rows of an evaluation's inputs that are bit-identical to rows trained on.

    `source` is the loader's label, or describes the calls to the model. `train_rows` and
    `eval_rows` are the numbers of distinct training and evaluation rows; `shared` of these also
    occur in training. `expected_share` is the share expected by chance, estimated from how often
    rows are equal within a training batch. `copied`: the shared rows include rows that occur
    several times, although they are too far from all others to be equal by chance. `share_of_all`
    is the share of the evaluation's rows that were trained on, counting duplicates; None in older
    runs. `earlier`: they were trained on in an earlier training run of the same model, whose
    weights were kept. `own_dataset`: the rows come from a loader whose dataset is not the same
    object as the dataset of the training loader. Of `inspected` evaluation rows, `between` lie
    exactly on a line through two of their nearest training rows.
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
    own_dataset: bool = False
    inspected: int = 0
    between: int = 0
    location: str | None = None


class IndicesShared(Fact, frozen=True, kw_only=True, tag=True):
    """A training loader and an evaluation loader draw from the same data.

    The numbers are distinct indices into that data; `shared` are in both.
    """

    train_loader: str
    eval_loader: str
    train_samples: int
    eval_samples: int
    shared: int
    location: str | None = None


class SplitDrawn(Fact, frozen=True, kw_only=True, tag=True):
    """Indices that training and evaluation loaders draw from one dataset.

    `data` is the class of that dataset, `size` its length. `trained` and `evaluated` are packed
    (`core.packed`), distinct and sorted. `replicas` is the number of ranks among which the sampler
    of the training loader divides them, 1 without a `DistributedSampler`.
    """

    data: str
    size: int
    trained: str
    evaluated: str
    eval_loader: str
    replicas: int = 1
    location: str | None = None


class TargetOrder(Fact, frozen=True, kw_only=True, tag=True):
    """The targets of the batches that one loss call site received, in order.

    One entry per optimizer step in `steps`: for a class loss the number of targets per class in
    `counts` (with neighboring classes combined if there are many), otherwise the number, mean and
    variance of the targets in `moments`; the other field is empty. `sampler` is the sampler of the
    training loader, None without a loader. `loaded`: the loss keeps no target, so they are the last
    tensor of the loader's batches.
    """

    site: str
    steps: tuple[int, ...]
    counts: tuple[tuple[int, ...], ...] = ()
    moments: tuple[tuple[float, float, float], ...] = ()
    loader: str | None = None
    sampler: str | None = None
    loaded: bool = False
    location: str | None = None


class BorderClasses(Fact, frozen=True, kw_only=True, tag=True):
    """Classes of label maps that lie only between a lower and a higher class.

    In `looks` inspected losses of a line, nearly every place of each class of `classes` had both a
    lower and a higher class next to it, as after an interpolation of labels. They have `places`
    places together. `others` is the number of classes that also fill areas. `location` is the line
    of the loss.
    """

    looks: int
    classes: tuple[int, ...]
    places: int
    others: int
    location: str | None = None
