"""Names of the numbers that mothtrap records for each step."""

from __future__ import annotations

from typing import Final

DIGEST: Final = "digest"
"""xxh3_64 of the bytes, seeded by type and shape."""
DIGEST_SUM: Final = "digest_sum"
"""Sum of the elements read as integers, as computed on an accelerator."""
DIGESTS: Final = (DIGEST, DIGEST_SUM)

# fmt: off
MEASURED: Final = frozenset({
    "loss", "lr", "gradient_norm", "gradient_state", "stale_gradient", "clip_limit", "loss_scale",
    "skipped", "micro_batches", "step_s", "own_s", "memory_bytes", DIGEST, DIGEST_SUM,
})
# fmt: on
"""Names of numbers that mothtrap measures and rules evaluate."""


def logged_name(name: str) -> str:
    """Return the scalar name of a logged number; `log.<name>` if mothtrap itself measures `name`.

    Raises:
        TypeError: the name is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name must be a string, not a {type(name).__name__}")
    return f"log.{name}" if name in MEASURED else name
