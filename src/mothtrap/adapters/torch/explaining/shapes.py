"""Explain shape mismatches: the required and the actual shape of a layer or an operation."""

from __future__ import annotations

import math
import re

import torch
from torch import nn

from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.explaining.explanation import (
    Explanation,
    explain_expression,
    explain_module,
    tensors_of,
)
from mothtrap.adapters.torch.explaining.scene import Call, Scene
from mothtrap.adapters.torch.explaining.sources import Sources, first_tensor, is_short
from mothtrap.adapters.torch.source.names import made_with

_KNOWN = re.compile(
    r"shapes cannot be multiplied|to have \d+ channels|input to conv\w*\b.*input of size"
    r"|Kernel size can't be greater|Output size is too small|should contain \d+ elements"
    r"|more than 1 value per channel|expected \d+D|Expected weight to be a vector of size"
    r"|normalized_shape=|must be equal to input_size|Expected hidden|Expected input to be \dD"
    r"|expecting embedding dimension|Sizes of tensors must match|same number of dimensions"
    r"|stack expects each tensor|The size of tensor a|first two dimensions of batch2"
    r"|^size mismatch, got|inconsistent tensor size|does not broadcast with previously"
    r"|is invalid for input of size|view size is not compatible|expanded size of the tensor"
    r"|Dimension out of range|number of dimensions in the tensor input|does not match weight size"
    r"|match target batch_size|multi-target not supported|Expected target size|Target size \("
    r"|Using a target size|for scalar outputs|cannot be converted to Scalar|batch mode\) tensor"
    r"|Boolean value of Tensor with more"
)
_BY_HAND = "do not hard-code the batch size: use -1 or x.shape[0]"
_DROP = "or drop the smaller last batch: DataLoader(..., drop_last=True)"


def explain(scene: Scene, sources: Sources) -> Explanation | None:
    """Explain an exception about shapes; None for other exceptions."""
    if not is_about_shapes(scene.message):
        return None
    if loss := scene.function(*_LOSSES):
        return _of_loss(scene, sources, loss.variables)
    subject = scene.subject
    if subject is not None:
        found = _of_module(scene, sources, subject)
        if found is not None:
            return found
    return _of_expression(scene, sources)


def is_about_shapes(message: str) -> bool:
    """Return whether an exception's text is about shapes."""
    return _KNOWN.search(message) is not None


# Layers


def _of_module(scene: Scene, sources: Sources, call: Call) -> Explanation | None:
    given = first_tensor(call)
    wanted = _wanted(call.module, given[1]) if given is not None else None
    if given is None or wanted is None:
        return explain_module("shape", scene, sources, call, scene.message.splitlines()[0], ())
    needs, fixes = wanted
    return explain_module("shape", scene, sources, call, needs, fixes)


def _wanted(module: nn.Module, x: torch.Tensor) -> tuple[str, tuple[str, ...]] | None:
    """Return the input that a layer requires, and fixes for an input `x`."""
    if isinstance(module, nn.Linear):
        return _last_axis(module.in_features, x, f"nn.Linear({_last(x)}, {module.out_features})")
    if isinstance(module, nn.RNNBase) and x.ndim in (2, 3):
        kind = f"nn.{type(module).__name__}({_last(x)}, {module.hidden_size})"
        return _last_axis(module.input_size, x, kind)
    if isinstance(module, nn.MultiheadAttention):
        return _last_axis(module.embed_dim, x, f"nn.MultiheadAttention({_last(x)}, ...)")
    if isinstance(module, nn.LayerNorm) and len(module.normalized_shape) == 1:
        return _last_axis(module.normalized_shape[0], x, f"nn.LayerNorm({_last(x)})")
    if isinstance(module, nn.modules.conv._ConvNd):
        return _convolution(module, x)
    if isinstance(module, nn.modules.batchnorm._BatchNorm) and x.ndim in _axes_of(module):
        return _channels(module.num_features, x, f"nn.{type(module).__name__}")
    if isinstance(module, nn.GroupNorm):
        return _channels(module.num_channels, x, f"nn.GroupNorm({module.num_groups}, ...)")
    axes = _axes_of(module)
    if axes and x.ndim not in axes:
        return f"it needs {' or '.join(map(str, axes))} axes, but this has {x.ndim}", ()
    return None


def _axes_of(module: nn.Module) -> tuple[int, ...]:
    """Return the numbers of axes that the input of a layer may have."""
    if isinstance(module, nn.RNNBase):
        return 2, 3
    kinds = (nn.BatchNorm1d, (2, 3)), (nn.BatchNorm2d, (4,)), (nn.BatchNorm3d, (5,))
    return next((axes for kind, axes in kinds if isinstance(module, kind)), ())


def _last(x: torch.Tensor) -> int:
    return x.shape[-1] if x.ndim else 1


def _last_axis(size: int, x: torch.Tensor, instead: str) -> tuple[str, tuple[str, ...]] | None:
    if not x.ndim or x.shape[-1] == size:
        return None
    sizes = tuple(x.shape)
    fixes: list[str] = []
    start = next((n for n in range(1, x.ndim) if math.prod(sizes[n:]) == size), None)
    if start is not None:
        fixes.append(f"flatten it first: x.flatten({start})")
    elif math.prod(sizes) == size:
        fixes.append("it is one sample without the batch axis: x.flatten()[None]")
    if size in sizes[:-1]:
        axis = sizes.index(size)
        fixes.append(f"its axis {axis} has size {size}: x.transpose({axis}, -1) if the axes are")
        fixes[-1] += " swapped"
    fixes.append(f"change the layer to {instead}, or give it an input of size {size}")
    return f"its last axis must be {size}, but is {sizes[-1]}", tuple(fixes)


def _channels(size: int, x: torch.Tensor, kind: str) -> tuple[str, tuple[str, ...]] | None:
    if x.ndim >= 2 and x.shape[1] != size:
        fixes = [
            (f"change the layer to {kind} with {x.shape[1]} channels, or give it {size} channels")
        ]
        if size in tuple(x.shape):
            axis = tuple(x.shape).index(size)
            fixes.insert(0, f"its axis {axis} has size {size}: x.transpose({axis}, 1)")
        return f"its axis 1 (channels) must be {size}, but is {x.shape[1]}", tuple(fixes)
    if x.ndim >= 2 and x.numel() == x.shape[1]:
        needs = "in training it needs more than one value per channel, but this is one row"
        return needs, ("drop a last batch of one row: drop_last=True",)
    return None


def _convolution(module: nn.modules.conv._ConvNd, x: torch.Tensor) -> tuple[str, tuple[str, ...]]:
    axes = len(module.kernel_size)
    channels, name = module.in_channels, type(module).__name__
    if x.ndim not in (axes + 1, axes + 2):
        needs = f"it needs {axes + 2} axes (rows, {channels} channels, {axes} spatial axes)"
        fixes = [f"add a channel axis: x[:, None], for nn.{name}(1, ...)"]
        return f"{needs}, but this has {x.ndim}", tuple(fixes if x.ndim == axes + 1 else ())
    axis = x.ndim - axes - 1
    found = x.shape[axis]
    if found != channels:
        fixes = []
        if channels == x.shape[-1]:
            order = (0, x.ndim - 1, *range(1, x.ndim - 1))
            fixes.append(f"the channels are in its last axis: x.permute{order}")
        fixes.append(f"change the layer to nn.{name}({found}, ...), or give it {channels} channels")
        return f"its axis {axis} (channels) must be {channels}, but is {found}", tuple(fixes)
    size = tuple(x.shape[axis + 1 :])
    needs = f"its kernel {tuple(module.kernel_size)} is larger than its input {size}"
    return needs, (
        "earlier layers shrink the input too much: use fewer layers, a smaller stride, or padding",
        "or use larger images",
    )


# Losses

_LOSSES = (
    "cross_entropy",
    "nll_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
)


def _of_loss(scene: Scene, sources: Sources, variables: object) -> Explanation | None:
    assert isinstance(variables, dict)
    given, target = variables.get("input"), variables.get("target")
    name = scene.function(*_LOSSES)
    if not isinstance(given, torch.Tensor) or not isinstance(target, torch.Tensor) or not name:
        return None
    needs, fixes = (
        _class_loss(given, target)
        if name.name in ("cross_entropy", "nll_loss")
        else _other_loss(given, target, scene, sources)
    )
    made = sources.told(given, scene)
    where = f" ({scene.location})" if scene.location else ""
    sentence = (
        f"{name.name}{where} got predictions of shape {wording.shape(given)} and targets of shape "
        f"{wording.shape(target)}: {needs}"
    )
    return Explanation(
        kind="shape",
        sentence=f"{sentence}; the prediction {made}" if made else sentence,
        fixes=fixes,
        inputs=wording.inputs_in_words([("input", given), ("target", target)]),
    )


def _class_loss(given: torch.Tensor, target: torch.Tensor) -> tuple[str, tuple[str, ...]]:
    sizes, labels = tuple(given.shape), tuple(target.shape)
    if labels == (*sizes[:1], 1) and len(sizes) == 2:
        return "it needs one label per row, without an extra axis", ("target.squeeze(1)",)
    if len(sizes) > 2 and labels == sizes[:-1]:
        return (
            f"the classes must be in axis 1, but here they are in the last axis ({sizes[-1]})",
            ("pred.transpose(1, -1)", "pred.flatten(0, -2) and target.flatten()"),
        )
    if sizes and labels and sizes[0] != labels[0]:
        return (
            f"they have {sizes[0]} and {labels[0]} rows",
            (
                "look for an earlier view or reshape that moves rows into other axes",
                _BY_HAND,
            ),
        )
    expected = (*sizes[:1], *sizes[2:])
    if len(labels) == 2 and len(sizes) == 2:
        return (
            f"it needs {expected} class numbers, or {sizes} probabilities",
            (f"the target has {labels[1]} classes, the model {sizes[1]}: make them equal",),
        )
    return f"for these predictions the targets must have the shape {expected}", ()


def _other_loss(
    given: torch.Tensor, target: torch.Tensor, scene: Scene, sources: Sources
) -> tuple[str, tuple[str, ...]]:
    sizes, labels = tuple(given.shape), tuple(target.shape)
    if sizes == (*labels, 1):
        return "they must be the same", ("pred.squeeze(-1), or target[..., None]",)
    if labels == (*sizes, 1):
        return "they must be the same", ("target.squeeze(-1)",)
    if sizes[:1] != labels[:1] and sizes[1:] == labels[1:]:
        rows = f"they have {sizes[0] if sizes else 1} and {labels[0] if labels else 1} rows"
        return rows, _of_short(scene, sources) if is_short(sources.batch) else (_BY_HAND,)
    return "they must be the same", ("give the model as many outputs as the target has",)


# Operations on tensors


def _of_expression(scene: Scene, sources: Sources) -> Explanation:
    message = scene.message.splitlines()[0]
    fixes: tuple[str, ...] = ()
    short = is_short(sources.batch)
    asked = re.search(r"shape '\[(.*)\]' is invalid for input of size (\d+)", message)
    if asked is not None:
        sizes = [int(number) for number in asked[1].split(",") if number.strip()]
        needs, fixes = _reshaped(sizes, int(asked[2]), sources)
    elif "view size is not compatible" in message:
        needs = "its elements are not in this order in memory (after a transpose or permute)"
        fixes = ("use .reshape(...) instead of .view(...)",)
    elif "scalar outputs" in message:
        needs = "backward needs a single number, but this has more"
        fixes = ("reduce the loss first: loss.mean() or loss.sum()",)
    elif "Dimension out of range" in message or "number of dimensions in the tensor" in message:
        needs = message[0].lower() + message[1:]
        fixes = (
            ("check which earlier operation removed or added an axis: squeeze, indexing, a mean"),
        )
    else:
        needs = message[0].lower() + message[1:]
        fixes = _of_two(scene)
    if short and asked is None:
        fixes = (*fixes, *_of_short(scene, sources))
    return explain_expression("shape", scene, sources, needs.rstrip("."), fixes)


def _of_short(scene: Scene, sources: Sources) -> tuple[str, ...]:
    """Return fixes for a tensor of a full batch that was combined with a smaller batch."""
    usual = sources.batch.source.plan.batch_size if sources.batch is not None else None
    fixed = made_with(scene.code, usual) if usual is not None else None
    if fixed is not None:
        return f"{fixed} has the size of a full batch: write x.shape[0] instead of {usual}", _DROP
    return (
        f"a tensor here may have the size of a full batch ({usual} rows): its size may be "
        "hard-coded (use x.shape[0] of the batch instead), or it may be state from the previous "
        "batch",
        _DROP,
    )


def _reshaped(sizes: list[int], elements: int, sources: Sources) -> tuple[str, tuple[str, ...]]:
    shape = tuple(sizes)
    known = math.prod(size for size in sizes if size != -1)
    if -1 in sizes:
        needs = f"its {elements} elements are not a multiple of {known}, as {shape} requires"
    else:
        needs = f"{shape} has {known} elements, but the tensor has {elements}"
    batch = sources.batch
    usual = batch.source.plan.batch_size if batch is not None else None
    if is_short(batch) and usual in sizes:
        return f"{needs}; {usual} is the size of a full batch", (_BY_HAND, _DROP)
    rest = math.prod(sizes[1:])
    if -1 not in sizes and len(sizes) > 1 and rest and elements % rest == 0:
        needs += f", which is ({elements // rest}, {', '.join(map(str, sizes[1:]))})"
        return needs, (_BY_HAND,)
    return needs, (
        ("print the shape before this line: an axis has a different size than the code assumes"),
    )


def _of_two(scene: Scene) -> tuple[str, ...]:
    """Return fixes for two tensors of incompatible shapes."""
    found = [tensor for _, tensor in tensors_of(scene)]
    if len(found) != 2:
        return ()
    a, b = found
    if "multiplied" in scene.message and a.ndim == b.ndim == 2 and a.shape[1] == b.shape[1]:
        return ("transpose the second tensor: a @ b.T",)
    if a.ndim != b.ndim and a.numel() == b.numel():
        return ("one tensor has an extra axis of size 1: squeeze or unsqueeze it",)
    return ()
