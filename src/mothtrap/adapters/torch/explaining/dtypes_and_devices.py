"""Explain errors about dtypes, devices, and values that are not tensors."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.explaining.explanation import (
    Explanation,
    explain_expression,
    explain_module,
)
from mothtrap.adapters.torch.explaining.scene import Call, Scene
from mothtrap.adapters.torch.explaining.sources import Sources, arguments, first_tensor
from mothtrap.statistics.torch.dtypes import type_name

_DTYPE = re.compile(
    r"must have the same dtype|to have the same dtype|Input type \(.*\) and (bias|weight) type"
    r"|expected scalar type|scalar types: |expected target dtype|[Ff]ound dtype|expected dtype"
    r"|can't be cast to the desired output|not implemented for '|could not infer output dtype"
    r"|Expected floating point type for target|Boolean inputs not supported"
    r"|Only Tensors of floating point"
)
_DEVICE = re.compile(r"on the same device|is not on the expected device|at least two devices")
_TYPE = re.compile(r"argument '(\w+)' (?:\(position \d+\) )?must be Tensor, not (\w[\w.]*)")
_LOSS = ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")


def explain(scene: Scene, sources: Sources) -> Explanation | None:
    """Explain an exception about types or devices; None for other exceptions."""
    wrong = _TYPE.search(scene.message)
    if wrong is not None and isinstance(scene.error, TypeError):
        return _no_tensor(scene, sources, wrong[2])
    if _DEVICE.search(scene.message):
        return _devices(scene, sources)
    if _DTYPE.search(scene.message):
        if scene.message.startswith("Input type") and _are_apart(scene.subject):
            return _devices(scene, sources)  # the error of a convolution names only types
        return _dtypes(scene, sources)
    return None


def _no_tensor(scene: Scene, sources: Sources, found: str) -> Explanation | None:
    call = scene.subject
    if call is None:
        needs = f"it needs a tensor, but got a {found}"
        return explain_expression("type", scene, sources, needs, _FIXES.get(found, ()))
    name, given = next(iter(arguments(call)), ("input", None))
    sentence = (
        f"{sources.named(call.module)} got {name} = {wording.value(given)}: it needs a tensor"
    )
    return Explanation(
        kind="type",
        sentence=sentence + _maker_of_parts(given, scene, sources),
        fixes=_FIXES.get(found, ()),
        module=call.module,
        inputs=wording.inputs_in_words(arguments(call)),
    )


_FIXES = {
    "tuple": (
        "pass only the tensor: out, state = self.rnn(x) for an LSTM or GRU, out[0] for other "
        "layers",
    ),
    "list": ("combine them into one tensor with torch.stack(...) or torch.cat(...)",),
    "NoneType": ("look for a forward method or another function without `return`",),
    "numpy.ndarray": ("torch.from_numpy(array)",),
}


def _maker_of_parts(given: Any, scene: Scene, sources: Sources) -> str:
    if not isinstance(given, list | tuple):
        return ""
    parts = [part for part in given if isinstance(part, torch.Tensor)]
    made = sources.told(parts[0], scene) if parts else ""
    return f"; the first {made}" if made else ""


# Devices


def _devices(scene: Scene, sources: Sources) -> Explanation | None:
    call = scene.subject
    given = first_tensor(call) if call is not None else None
    if call is None or given is None:
        found = sorted({str(t.device) for t in _tensors(scene)})
        needs = "all tensors must be on one device"
        if len(found) > 1:
            needs += f", but these are on {wording.joined(found)}"
        return explain_expression(
            "device",
            scene,
            sources,
            needs,
            (("move all of them to one device first: x = x.to(device)"),),
        )
    own = next((p.device for p in call.module.parameters()), None)
    name, tensor = given
    if own is not None and own.type == "meta":
        needs = "its weights have no memory (they are on the meta device)"
        return explain_module(
            "device",
            scene,
            sources,
            call,
            needs,
            ("call module.to_empty(device=...), then load the weights",),
        )
    if own is None or tensor.device == own:
        needs = scene.message.splitlines()[0]
        return explain_module("device", scene, sources, call, needs, ())
    return explain_module(
        "device",
        scene,
        sources,
        call,
        f"its weights are on {own}, but the input is on {tensor.device}",
        (
            f"move the batch: {name} = {name}.to({str(own)!r}); a tensor's .to() returns a new one",
            "or move the model before the optimizer is created: model.to(device)",
        ),
    )


def _are_apart(call: Call | None) -> bool:
    given = first_tensor(call) if call is not None else None
    own = next(call.module.parameters(), None) if call is not None else None
    return given is not None and own is not None and given[1].device != own.device


def _tensors(scene: Scene) -> list[torch.Tensor]:
    found = [value for value in scene.operands.values() if isinstance(value, torch.Tensor)]
    loss = scene.function(*_LOSS, "mse_loss")
    for name in ("input", "target") if loss is not None else ():
        value = loss.variables.get(name) if loss is not None else None
        if isinstance(value, torch.Tensor):
            found.append(value)
    return found


# Types of elements


def _dtypes(scene: Scene, sources: Sources) -> Explanation | None:
    loss = scene.function(*_LOSS, "mse_loss", "l1_loss", "smooth_l1_loss")
    if loss is not None:
        return _of_loss(scene, loss.name, loss.variables.get("input"), loss.variables.get("target"))
    call = scene.subject
    given = first_tensor(call) if call is not None else None
    if call is None or given is None:
        message = scene.message.splitlines()[0]
        return explain_expression("dtype", scene, sources, message, _cast(_operands(scene)))
    needs, fixes = _needed(call, given[1])
    return explain_module("dtype", scene, sources, call, needs, fixes)


def _operands(scene: Scene) -> list[torch.Tensor]:
    return [value for value in scene.operands.values() if isinstance(value, torch.Tensor)]


def _needed(call: Call, x: torch.Tensor) -> tuple[str, tuple[str, ...]]:
    module = call.module
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return "it needs int64 indices", (
            "x.long(), if these are indices",
            "use nn.Linear for numbers that are not indices",
        )
    own = next((p.dtype for p in module.parameters() if p.is_floating_point()), None)
    if own is None or own == x.dtype:
        return "it does not support this type", _cast([x])
    weights = type_name(own)
    needs = f"its weights are {weights}"
    if x.dtype == torch.float64:
        return needs, (
            "x.float(): NumPy arrays are float64 by default",
            "convert the data to float32 where it is read: array.astype('float32')",
        )
    if not x.is_floating_point():
        return needs, (f"x.to(torch.{weights}), and x / 255 for images",)
    return needs, (
        "run both under torch.autocast, or neither",
        f"x.to(torch.{weights})",
    )


def _cast(tensors: list[torch.Tensor]) -> tuple[str, ...]:
    if any(t.dtype == torch.float64 for t in tensors):
        return ("float64 usually comes from NumPy: call .float() where the data is read",)
    if any(not t.is_floating_point() and not t.is_complex() for t in tensors):
        return ("integers have no mean, softmax, or gradient: call .float() first",)
    return ()


def _of_loss(scene: Scene, name: str, given: Any, target: Any) -> Explanation | None:
    if not isinstance(given, torch.Tensor) or not isinstance(target, torch.Tensor):
        return None
    where = f" ({scene.location})" if scene.location else ""
    got = f"{name}{where} got predictions {wording.tensor(given)} and targets"
    got += f" {wording.tensor(target)}: "
    if name in ("cross_entropy", "nll_loss"):
        needs, fixes = _class_target(given, target)
    else:
        needs = f"the targets must be {wording.dtype(given)}, like the predictions"
        fixes = ("target.float()",)
    return Explanation(
        kind="dtype",
        sentence=got + needs,
        fixes=fixes,
        inputs=wording.inputs_in_words([("input", given), ("target", target)]),
    )


def _class_target(given: torch.Tensor, target: torch.Tensor) -> tuple[str, tuple[str, ...]]:
    if target.shape == given.shape:
        return "targets of this shape are probabilities and must be floats", (
            "target.float() for one-hot rows, or target.argmax(1) for class numbers",
        )
    if not given.is_floating_point():
        return "the predictions must be floats", ("pass the scores, not their argmax",)
    return "class numbers must be int64", ("target.long()",)
