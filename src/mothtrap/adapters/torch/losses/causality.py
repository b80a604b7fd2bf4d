"""Causality of sequence models: whether positions depend on later ones, read from a graph.

Node names, shapes and numbers are read. Of the tensors that attention saved, only the presence of a
mask is read. The names are private to PyTorch, and covered by the tests of this file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import torch
from torch import nn

from mothtrap.adapters.torch.job.graph import Node, operation, output_shape

MAX_NODES = 20000
"""Maximum number of inspected operations; a GPT with 48 layers has 3000."""
MAX_BEFORE = 8
"""Maximum number of operations between the product of queries and keys and its softmax."""

_SOFTMAXES = frozenset({"softmax", "safe_softmax"})
_SCORES = frozenset({"bmm", "mm", "matmul"})
_UNMASKING = frozenset(
    {"div", "mul", "view", "unsafe_view", "reshape", "expand", "clone", "to_copy", "transpose"}
)


def looks_ahead(root: Node, modules: Iterable[nn.Module], length: int) -> str:
    """Return the layer through which positions of a sequence depend on later positions.

    Args:
        root: `grad_fn` of a prediction.
        modules: modules that ran in the forward pass.
        length: length of the sequence.

    Returns:
        `attention` if no attention over all positions is masked, `recurrent` if every recurrent
        layer runs in both directions; `causal` if all attention is masked, or the only recurrent
        layer runs in one direction; otherwise `""`.
    """
    masked = [m for m in _attention_masks(root, length) if m is not None]
    if masked:
        return "causal" if all(masked) else "" if any(masked) else "attention"
    layers = {id(module): module for module in modules if isinstance(module, nn.RNNBase)}
    if layers and all(layer.bidirectional for layer in layers.values()):
        return "recurrent"
    return "causal" if len(layers) == 1 else ""


def _attention_masks(root: Node, length: int) -> list[bool | None]:
    """Return, for every attention over the sequence, whether it is masked; None = unknown."""
    found: list[bool | None] = []
    waiting, seen = deque([root]), {root}
    while waiting and len(seen) <= MAX_NODES:
        node = waiting.popleft()
        name = operation(node)
        if name in _SOFTMAXES and _is_square(output_shape(node), length):
            found.append(_is_masked(node))
        elif name.startswith("scaled_dot_product"):
            found.append(_is_fused_masked(node, length))
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)
    return found


def _is_square(shape: tuple[int, ...] | None, length: int) -> bool:
    return shape is not None and len(shape) >= 3 and shape[-1] == shape[-2] == length


def _is_masked(softmax: Node) -> bool:
    """Return whether anything but scaling lies between the scores and their softmax."""
    node: Node | None = next((c for c, _ in softmax.next_functions if c is not None), None)
    for _ in range(MAX_BEFORE):
        if node is None:
            return True
        raw = str(node.name()).lower()
        if raw.startswith(tuple(_SCORES)):
            return False
        if operation(node) not in _UNMASKING:
            return True  # masked_fill, where, baddbmm, or an addition: may be a mask
        node = next((c for c, _ in node.next_functions if c is not None), None)
    return True


def _is_fused_masked(node: Node, length: int) -> bool | None:
    """Return whether a fused operation is masked; None if its arguments cannot be read."""
    shape = output_shape(node)
    if shape is None or len(shape) < 3 or shape[-2] != length:
        return None  # attention to other positions, such as those of an encoder
    causal = getattr(node, "_saved_is_causal", None)
    if not isinstance(causal, bool):
        return True
    for name in ("attn_mask", "attn_bias"):
        packed = getattr(getattr(node, f"_raw_saved_{name}", None), "unpack_hook", None)
        if packed is not None:
            return True
        try:
            if isinstance(getattr(node, f"_saved_{name}", None), torch.Tensor):
                return True
        except RuntimeError:
            return True
    return causal
