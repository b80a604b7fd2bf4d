"""Set the batch as the first axis of a recurrent or attention layer."""

from __future__ import annotations

import libcst as cst

from mothtrap.core.findings import Finding
from mothtrap.repairs.script import Script, code, keyword, last_name, only, with_keyword

ANYWHERE = True

_LAYERS = {
    "GRU",
    "LSTM",
    "MultiheadAttention",
    "RNN",
    "Transformer",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
}


def repair(script: Script, finding: Finding) -> str:  # noqa: ARG001  # one form for all
    """Return the source with `batch_first=True` on the only such layer."""
    own = {one.name.value for one in script.every(cst.ClassDef)}
    made = [
        one
        for one in script.every(cst.Call)
        if last_name(one.func) in _LAYERS - own and not _is_batch_first(one)
    ]
    layer = only(made, "layer without batch_first")
    given = keyword(layer, "batch_first")
    if given is not None:
        return script.replaced(given.value, cst.Name("True"))
    return script.replaced(layer, with_keyword(layer, "batch_first", "True"))


def _is_batch_first(layer: cst.Call) -> bool:
    given = keyword(layer, "batch_first")
    return given is not None and code(given.value) != "False"
