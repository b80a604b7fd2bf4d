"""Explain the exception that ended a script, if the framework raised it, as a fact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mothtrap.adapters.torch.data.data_sources import Source
from mothtrap.adapters.torch.data.loaders import in_preparation
from mothtrap.adapters.torch.explaining import (
    dtypes_and_devices,
    graphs,
    indices,
    loading,
    memory,
    not_finite,
    shapes,
    unreduced,
    wording,
)
from mothtrap.adapters.torch.explaining.explanation import Explanation
from mothtrap.adapters.torch.explaining.scene import Scene, scene_of
from mothtrap.adapters.torch.explaining.sources import Sources, arguments
from mothtrap.core.facts.failures import ScriptFailed
from mothtrap.core.steps import Mode

if TYPE_CHECKING:
    from mothtrap.adapters.torch.forward.forwards import ForwardObserver
    from mothtrap.adapters.torch.job.naming import NameBook

KINDS = (
    loading.explain,
    memory.explain,
    graphs.explain,
    indices.explain,
    dtypes_and_devices.explain,
    not_finite.explain,
    unreduced.explain,
)
"""Explanations in the order in which they are tried, before shapes."""
MAX_ERROR = 300
MAX_CAUSES = 8


def explain(
    error: BaseException, step: int, book: NameBook, forwards: ForwardObserver
) -> ScriptFailed | None:
    """Explain an uncaught exception.

    Args:
        error: the exception; its frames still contain the failed call.
        step: the step in which it was raised.
        book: names of modules.
        forwards: outputs of the latest forward pass, and the data from loaders.

    Returns:
        The explanation; None if the exception is the user's own, such as a KeyError, or if nothing
        is known about it.
    """
    for cause in _causes(error):
        scene = scene_of(cause)
        sources = Sources(
            book=book,
            held=forwards.retained,
            batch=forwards.inputs.loaders.latest,
            asked=_asked(scene, forwards),
            recomputes=forwards.recomputes,
        )
        found = _explained(scene, sources)
        if found is not None:
            return _fact(found, scene, sources, step)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Return the exception, and the exceptions from which it was raised explicitly."""
    cause: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if not isinstance(cause, Exception):
            return
        yield cause
        cause = cause.__cause__


def _asked(scene: Scene, forwards: ForwardObserver) -> tuple[Source, tuple[int, ...]] | None:
    found = scene.function("__next__")
    iterator = found.variables.get("self") if found is not None else None
    return in_preparation(forwards.inputs.loaders, iterator) if iterator is not None else None


def _explained(scene: Scene, sources: Sources) -> Explanation | None:
    if scene.own:
        return loading.explain(scene, sources)  # its message contains only the index of the sample
    for explain_kind in (*KINDS, shapes.explain):
        found = explain_kind(scene, sources)
        if found is not None:
            return found
    return _place_only(scene, sources)


def _place_only(scene: Scene, sources: Sources) -> Explanation | None:
    """Return the layer of the framework that raised an otherwise unexplained error."""
    call = scene.subject
    if call is None or not scene.of_framework:
        return None
    if not type(call.module).__module__.startswith("torch.nn"):
        return None
    text = scene.message.splitlines()[0] if scene.message else type(scene.error).__name__
    return Explanation(
        kind="other",
        sentence=f"{sources.named(call.module)} failed: {text[:MAX_ERROR]}",
        module=call.module,
        inputs=wording.inputs_in_words(arguments(call)),
    )


def _fact(found: Explanation, scene: Scene, sources: Sources, step: int) -> ScriptFailed:
    outermost = scene.calls[0].module if scene.calls else None
    evaluated = outermost is not None and not outermost.training
    text = scene.message.splitlines()[0] if scene.message else ""
    module = found.module
    return ScriptFailed(
        step=step,
        mode=Mode.EVAL if evaluated else Mode.TRAIN,
        kind=found.kind,
        error=f"{type(scene.error).__name__}: {text}"[:MAX_ERROR],
        sentence=found.sentence,
        module=wording.path_of(module, sources.book) if module is not None else None,
        inputs=found.inputs,
        batch=sources.provenance() if found.concerns_batch else "",
        location=scene.location,
        fixes=found.fixes,
    )
