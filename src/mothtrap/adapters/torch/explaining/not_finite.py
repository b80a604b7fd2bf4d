"""Explain calls that reject NaN or infinity, and find the operation that produced it."""

from __future__ import annotations

import re

import torch

from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.explaining.explanation import Explanation
from mothtrap.adapters.torch.explaining.scene import Scene
from mothtrap.adapters.torch.explaining.shapes import is_about_shapes
from mothtrap.adapters.torch.explaining.sources import Sources
from mothtrap.adapters.torch.losses import bad_in_source
from mothtrap.adapters.torch.losses.first_bad_location import first_bad_operation
from mothtrap.adapters.torch.source.bad_values import is_finite
from mothtrap.core.facts.nonfinite import FirstBadOperation
from mothtrap.core.operation_advice import advice_on

_ABOUT_VALUES = re.compile(
    r"satisfy the constraint|\bnan\b|\binf\b|infinite|infinity|not finite|non-?finite|singular"
    r"|positive-definite|failed to converge|should be between 0 and 1|probability tensor",
    re.IGNORECASE,
)
REPLAY_NAMES_IT = (
    "replay the step with the command below to see the operation, its line, and its values"
)


def explain(scene: Scene, sources: Sources) -> Explanation | None:
    """Explain an exception caused by NaN or infinity; None for other exceptions."""
    if not _ABOUT_VALUES.search(scene.message) or is_about_shapes(scene.message):
        return None
    seen = operation_behind(scene, sources)
    bad = [(name, value) for name, value in scene.operands.items() if is_finite(value) is False]
    if seen is None and not bad:
        return None
    call = f"`{' '.join(scene.code.split())[:120]}`" if scene.code else "an operation"
    where = f" ({scene.location})" if scene.location else ""
    sentence = f"{call}{where} got NaN or infinite values"
    sentence += (
        f": {in_words(seen)}" if seen is not None else f" in {bad[0][0]}; their origin is unknown"
    )
    return Explanation(
        kind="not finite",
        sentence=sentence,
        fixes=(fix_of(seen),) if seen is not None else (REPLAY_NAMES_IT,),
        inputs=wording.inputs_in_words(scene.operands.items()),
    )


def operation_behind(scene: Scene, sources: Sources) -> FirstBadOperation | None:
    """Return the operation that produced the non-finite input of a failed call."""
    written = bad_in_source.of_call(scene.frame, sources.held)
    if written is not None and not written.given:
        return bad_in_source.fact_of(written, 0)
    for value in scene.operands.values():
        if isinstance(value, torch.Tensor) and is_finite(value) is False:
            seen = first_bad_operation(value, sources.held, sources.book, 0, None)
            if seen is not None and seen.since is None:
                return seen
    return None


def in_words(seen: FirstBadOperation) -> str:
    """Describe the operation that produced NaN or infinity, with location and inputs."""
    place = f" at {seen.location}" if seen.location else f" in {seen.module}" if seen.module else ""
    given = f" ({'; '.join(seen.inputs)})" if seen.inputs else ""
    return f"{seen.operation}{place} produced them from finite values{given}"


def fix_of(seen: FirstBadOperation) -> str:
    """Return the advice for an operation."""
    in_domain = f"Keep the input of `{seen.operation}` in its domain, e.g. with clamp."
    return advice_on(seen) or in_domain
