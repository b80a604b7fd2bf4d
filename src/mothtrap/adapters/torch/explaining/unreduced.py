"""Explains a data-parallel wrapper that waits for gradients of unused parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch.nn.parallel import DistributedDataParallel

from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.explaining.explanation import Explanation
from mothtrap.adapters.torch.explaining.scene import Scene
from mothtrap.adapters.torch.explaining.sources import Sources

_UNUSED = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")
MOST_NAMED = 4


def explain(scene: Scene, _: Sources) -> Explanation | None:
    """Explain that the loss of the previous step did not use some parameters."""
    found = _UNUSED.search(scene.message)
    wrappers = (call.module for call in scene.calls)
    wrapper = next((one for one in wrappers if isinstance(one, DistributedDataParallel)), None)
    if found is None or wrapper is None:
        return None
    trained = list(_averaged(wrapper))
    unused = [trained[n] for n in map(int, found[1].split()) if n < len(trained)]
    if not unused:
        return None
    named = wording.joined([f"`{name}`" for name in unused[:MOST_NAMED]])
    more = f" and {len(unused) - MOST_NAMED} more" if len(unused) > MOST_NAMED else ""
    return Explanation(
        kind="replicas",
        sentence=(
            f"the loss of the previous step did not use {named}{more}, so "
            "`DistributedDataParallel` still waits for gradients, and did not average all others"
        ),
        fixes=(
            "Use these parameters in `forward`, remove them, or freeze them before the model is "
            "wrapped.",
            "If only some steps use them: `DistributedDataParallel(model, "
            "find_unused_parameters=True)`.",
        ),
        module=wrapper.module,
        concerns_batch=False,
    )


def _averaged(wrapper: DistributedDataParallel) -> Iterator[str]:
    """Yield the names of the parameters that a wrapper averages, in its order."""
    ignored = getattr(wrapper, "parameters_to_ignore", ())
    for name, parameter in wrapper.module.named_parameters():
        if parameter.requires_grad and name not in ignored:
            yield name
