"""Weights that a script creates itself instead of loading them."""

from __future__ import annotations

from mothtrap.repairs.script import NoCertainRepairError, Script

_LOADS = ("load_state_dict", "from_pretrained", "load_weights", "load")
_WORDS = ("pretrained", "weights=")


def refuse_loaded_weights(script: Script) -> None:
    """Reject a script that loads weights, because a loaded part may be frozen on purpose.

    Raises:
        NoCertainRepairError: the file loads weights, or names pretrained weights.
    """
    for name in _LOADS:
        if script.calls(name):
            raise NoCertainRepairError(f"the script calls {name}(); check which weights it loads")
    for word in _WORDS:
        if word in script.module.code:
            raise NoCertainRepairError(f"the script uses `{word}`; decide what to train")
