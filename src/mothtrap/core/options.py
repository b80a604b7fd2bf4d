"""Settings that an adapter must support, and the reasons why an adapter does not.

A handle lists the settings that it supports (`core.adapters.Handle.honors`). Other settings that
a user asks for are reported at the first step, see `tracing.settings`.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from mothtrap.core.config import Config

Option = Literal["on_nonfinite", "max_gradient_norm", "snapshots", "digests", "perturb", "redact"]

EVERY: Final[frozenset[Option]] = frozenset(get_args(Option))
GUARDING: Final[tuple[Option, ...]] = ("on_nonfinite", "max_gradient_norm")
"""Options that decide which steps are applied."""
WITHOUT_SNAPSHOTS: Final[frozenset[Option]] = frozenset({"redact"})
"""Options that adapters without snapshots support, because they keep no inputs that need redaction.
"""

NO_EFFECT: Final[dict[Option, str]] = {
    "on_nonfinite": "steps of {} cannot be skipped, and are applied unchanged",
    "max_gradient_norm": "gradients of {} are not checked before they are applied",
    "snapshots": "no snapshots of {} are taken, so no step can be replayed",
    "digests": "no tensor digests are computed for {}",
    "perturb": "the initial weights of {} are not changed",
    "redact": "inputs of {} cannot be redacted, so no snapshots are taken",
}
"""Why an adapter does not honor an option; `{}` is its framework."""


def asked(config: Config) -> dict[Option, str]:
    """Return the options that a configuration sets, as shown to the user."""
    found: dict[Option, str] = {}
    if config.on_nonfinite != "report":
        found["on_nonfinite"] = f"on_nonfinite = {config.on_nonfinite}"
    if config.max_gradient_norm:
        found["max_gradient_norm"] = f"max_gradient_norm = {config.max_gradient_norm:g}"
    asking = {
        "snapshot_at": config.snapshot_at,
        "snapshot_every": config.snapshot_every,
        "--replay": config.replay_at_end,
        "--recheck": config.recheck,
    }
    if named := [name for name, value in asking.items() if value]:
        found["snapshots"] = ", ".join(named)
    if config.digests:
        found["digests"] = "digests"
    if config.perturb:
        found["perturb"] = "perturb"
    if config.redact:
        found["redact"] = "redact"
    return found
