"""Explain errors about a backward pass: no graph, a freed graph, or overwritten values."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.explaining import wording
from mothtrap.adapters.torch.explaining.explanation import (
    Explanation,
    explain_expression,
)
from mothtrap.adapters.torch.explaining.inplace import in_place_lines
from mothtrap.adapters.torch.explaining.scene import Scene
from mothtrap.adapters.torch.explaining.sources import Sources
from mothtrap.tracing.source import frames

_NO_GRAPH = "does not require grad and does not have a grad_fn"
_USED_UP = "backward through the graph a second time"
_OVERWRITTEN = "modified by an inplace operation"
_LEAF = "leaf Variable that requires grad is being used in an in-place"
_FACTS = re.compile(
    r"\[([\w.]+) \[([\d, ]*)\]\](?:, which is output \d+ of (\w+),)? is at version (\d+)"
)
MAX_NODES = 20_000
"""Maximum number of inspected operations of a graph."""


def explain(scene: Scene, sources: Sources) -> Explanation | None:
    """Explain an exception about the graph of a backward pass; None for other exceptions."""
    if _NO_GRAPH in scene.message:
        return _no_graph(scene, sources)
    if _USED_UP in scene.message:
        return _used_up(scene)
    if _OVERWRITTEN in scene.message:
        return _overwritten(scene, sources)
    if _LEAF in scene.message:
        needs = "a parameter is changed in place while autograd records it"
        fixes = ("with torch.no_grad(): around it", "or leave the change to an optimizer")
        return explain_expression("graph", scene, sources, needs, fixes)
    return None


def _loss(scene: Scene) -> torch.Tensor | None:
    """Return the tensor on which `backward` was called."""
    found = scene.function("backward")
    value = found.variables.get("self", found.variables.get("tensors")) if found else None
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    return value if isinstance(value, torch.Tensor) else None


def _where(scene: Scene) -> str:
    """Return the line of the backward call, and the line that computed the loss."""
    made = frames.assigned_at(scene.frame) if scene.frame is not None else None
    text = f" ({scene.location})" if scene.location else ""
    return text + (f" of the loss computed at {made}" if made and made != scene.location else "")


# No graph


def _no_graph(scene: Scene, sources: Sources) -> Explanation:
    loss = _loss(scene)
    sentence = f"backward{_where(scene)} has no graph to follow"
    if loss is not None:
        sentence += f": the loss ({wording.tensor(loss)}) does not depend on any trained weight"
    models = [root.module() for root in sources.book.roots]
    frozen = [model for model in models if model is not None and _is_frozen(model)]
    if models and len(frozen) == len(models):
        names = wording.joined([sources.named(model) for model in frozen])
        return Explanation(
            kind="graph",
            sentence=f"{sentence}; no parameter of {names} has requires_grad",
            fixes=("unfreeze the parameters to train: p.requires_grad_(True)",),
        )
    output = _with_graph(scene)
    if output:
        return Explanation(
            kind="graph",
            sentence=f"{sentence}; {wording.joined(output)} {_has(output)}: the graph "
            "was cut between there and the loss",
            fixes=(
                "compute the loss from the tensors themselves, without .detach(), .item(), "
                ".data, numpy, argmax, or torch.tensor(...) on the way",
            ),
        )
    return Explanation(
        kind="graph",
        sentence=sentence,
        fixes=(
            "look for torch.no_grad() or inference_mode around the forward pass",
            "or for .detach(), .item(), .data, numpy, argmax, or torch.tensor(...) on the way to "
            "the loss",
        ),
    )


def _is_frozen(model: nn.Module) -> bool:
    return not any(p.requires_grad for p in model.parameters())


def _has(names: list[str]) -> str:
    return "has a graph" if len(names) == 1 else "have a graph"


def _with_graph(scene: Scene, but: torch.Tensor | None = None) -> list[str]:
    """Return the variables of the function that called backward which have a graph."""
    variables = scene.frame.f_locals if scene.frame is not None else {}
    return [
        name
        for name, value in list(variables.items())
        if type(value) is torch.Tensor and value.grad_fn is not None and value is not but
    ][:4]


# A graph that is used up


def _used_up(scene: Scene) -> Explanation:
    loss = _loss(scene)
    others = _with_graph(scene, but=loss)
    sentence = (
        f"backward{_where(scene)} reached a part of the graph that an earlier backward pass "
        "already freed"
    )
    if others:
        sentence += f"; among the variables there, {wording.joined(others)} "
        sentence += _has(others)
    return Explanation(
        kind="graph",
        sentence=sentence,
        fixes=(
            "detach state that is carried from step to step: state = state.detach()",
            "if two losses use one model's output: out.detach() in the loss that must not train "
            "the model",
            "add the losses, and call backward once: (a + b).backward()",
        ),
    )


# Values that were overwritten


def _overwritten(scene: Scene, sources: Sources) -> Explanation:
    facts = _FACTS.search(scene.message)
    sizes = tuple(int(n) for n in facts[2].split(",") if n.strip()) if facts else ()
    version = int(facts[4]) if facts else -1
    sentence = f"backward{_where(scene)} needs a value that was overwritten after the forward pass"
    if facts is not None:
        sentence += f": a tensor of shape {sizes}"
    changed = list(_parameters(sources, sizes, version))
    if changed:
        return Explanation(
            kind="graph",
            sentence=f"{sentence}, the shape of {' or '.join(changed[:4])}: an optimizer step "
            "between the forward and the backward pass changes weights",
            fixes=(
                "call backward for every loss of a forward pass before any optimizer.step()",
                "or run the forward pass again after the step",
            ),
        )
    node = None if sources.recomputes else _failing_node(_loss(scene))
    if node is not None:
        sentence += f", kept for the gradient of {_operation(node)}"
        above = _nearest_parameter(node, sources)
        sentence += f", computed after {above}" if above else ""
    lines = in_place_lines(sources.book)
    if lines:
        sentence += f"; there are in-place operations at {wording.joined(lines)}"
    return Explanation(
        kind="graph",
        sentence=sentence,
        fixes=(
            "write x = x + y instead of x += y, relu(x) instead of relu_(x), and clone() before "
            "x[i] = y",
            "do not use nn.ReLU(inplace=True) after a layer that needs its own output, such as a "
            "sigmoid",
        ),
    )


def _parameters(sources: Sources, sizes: tuple[int, ...], version: int) -> Iterator[str]:
    """Return the parameters with this shape (or transposed) and number of in-place changes."""
    for root in sources.book.roots:
        model = root.module()
        for parameter in model.parameters() if model is not None else ():
            shape = tuple(parameter.shape)
            if sizes in (shape, shape[::-1]) and parameter._version == version > 0:
                known = sources.book.parameter_name(parameter)
                if known is not None:
                    yield known[0]


def _nodes(first: Any) -> Iterator[Any]:
    seen, waiting = {first}, deque([first])
    while waiting and len(seen) < MAX_NODES:
        node = waiting.popleft()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def _failing_node(loss: torch.Tensor | None) -> Any:
    """Return the operation whose saved value was overwritten: reading that value raises again."""
    if loss is None or loss.grad_fn is None:
        return None
    for node in _nodes(loss.grad_fn):
        for name in dir(node):
            if name.startswith("_saved_"):
                try:
                    getattr(node, name)
                except RuntimeError as err:
                    if _OVERWRITTEN in str(err):
                        return node
    return None


def _operation(node: Any) -> str:
    return re.sub(r"Backward\d*$", "", str(node.name())).lower() or str(node.name())


def _nearest_parameter(node: Any, sources: Sources) -> str:
    for above in _nodes(node):
        variable = getattr(above, "variable", None)
        if isinstance(variable, torch.Tensor):
            known = sources.book.parameter_name(variable)
            if known is not None:
                module = sources.book.module_called(known[1])
                return sources.named(module) if module is not None else known[1]
    return ""
