"""DAT548: all worker processes of a loader draw the same random numbers."""

from __future__ import annotations

from mothtrap.core.errors import NotApplicable, NotEnoughData
from mothtrap.core.facts.data import BatchesLoaded, GeneratorsShared, LoaderBegan
from mothtrap.core.found import Found
from mothtrap.core.needs import Need
from mothtrap.core.own_rules import rule
from mothtrap.core.window import Window


@rule(
    "DAT548",
    title="workers draw the same random numbers",
    needs=[Need(facts=(LoaderBegan, BatchesLoaded)), Need(facts=(GeneratorsShared,))],
    explains=("repeated_batch",),
)
def workers_draw_alike(window: Window) -> Found | None:
    """All worker processes of a loader draw the same random numbers.

    What it detects:
        A training loader with worker processes whose dataset draws its random numbers from a
        generator of its own, such as `self.rng = np.random.default_rng(0)` or a global variable.
        Also a `worker_init_fn` that sets the same seed in each worker.

    Why it matters:
        Each worker gets a copy of the generator, so all workers augment their rows with the same
        random numbers. Without `persistent_workers`, each epoch repeats them, too. The data are
        much less varied than intended.

    Fires:
        Warning when a loader with at least two workers is trained on, has no `worker_init_fn`, and
        the code that loads a sample uses a random generator of the dataset, of one of its
        transforms, or of a global variable, without setting a seed. For a `worker_init_fn` that
        sets a seed and uses neither the number of the worker nor anything else that differs:
        warning if batches repeat within a pass, otherwise a note.

    Stays quiet:
        For `random`, `numpy.random` and `torch`, which PyTorch seeds differently in each worker.
        If the code sets a seed for each sample or each worker. For evaluation loaders, for which
        equal numbers do no harm, and for iterable datasets.

    What to do:
        - PyTorch: Give each worker its own generator: pass `worker_init_fn` to the loader, and set
          `get_worker_info().dataset.rng = np.random.default_rng(torch.initial_seed())` in it.
        - PyTorch: Use the number of the worker in `worker_init_fn`: `np.random.seed(seed +
          worker_id)`, or better `np.random.seed(torch.initial_seed() % 2**32)`, which also differs
          in each epoch.
        - PyTorch: Or draw from `torch.rand` or `np.random`, which each worker seeds differently.

    Example:
        self.rng = np.random.default_rng(0)                       # in `__init__`: copied
        rng = np.random.default_rng(torch.initial_seed() + i)     # in `__getitem__`: differs

    References:
        https://docs.pytorch.org/docs/stable/notes/faq.html#my-data-loader-workers-return-identical-random-numbers
    """
    began = list(window.seen(LoaderBegan))
    if not began:
        raise NotApplicable("no loader was used")
    if all(one.workers < 2 for one in began):
        raise NotApplicable("no loader has several workers")
    passes = list(window.seen(BatchesLoaded))
    if not passes:
        raise NotEnoughData("no pass over the data has ended")
    trained = {one.loader for one in passes if one.trained}
    for one in window.seen(GeneratorsShared):
        if one.loader in trained:
            epochs = "" if one.persistent else ", and again in each epoch"
            if one.seeded_by:
                repeats = any(p.repeated for p in passes if p.loader == one.loader)
                return Found.of(
                    one,
                    f"`{one.seeded_by}` sets the same seed in each of the {one.workers} workers of "
                    f"{one.loader}: they draw the same random numbers{epochs}",
                    severity="warning" if repeats else "info",
                    evidence={"workers": one.workers, "function": one.seeded_by},
                    fixes=(1,),
                )
            names = " and ".join(f"`{name}`" for name in one.generators)
            return Found.of(
                one,
                f"the {one.workers} workers of {one.loader} each begin with a copy of {names} in "
                f"the same state: they draw the same random numbers{epochs}",
                evidence={"workers": one.workers, "generators": ", ".join(one.generators)},
                fixes=(0, 2),
            )
    return None
