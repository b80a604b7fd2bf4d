"""The batch that a loader was preparing when it failed."""

from __future__ import annotations

from mothtrap.adapters.torch.data.data_sources import Source
from mothtrap.adapters.torch.data.loaders import LoaderObserver
from mothtrap.adapters.torch.data.samplers import samples_of


def waited_for(loaders: LoaderObserver, iterator: object) -> tuple[Source, tuple[int, ...]] | None:
    """Return the loader of an iterator, and the samples of its next batch.

    The samples are empty if the loader does not provide them; None for an iterator that is not
    tracked.
    """
    known = loaders._passes.get(iterator)
    source = known.source if known is not None else None
    if known is None or source is None:
        return None
    loader = source.loader()
    drawn = known.drawn[0] if known.drawn else None
    return source, samples_of(loader, drawn) if loader is not None else ()
