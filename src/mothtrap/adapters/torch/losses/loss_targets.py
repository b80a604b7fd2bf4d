"""Compares the targets of a loss with the inputs and outputs of the model, in sampled steps.

It reads the target and the prediction that the loss operation saved (by the rules of
`loss_values`), and the inputs and outputs of the latest forward pass, which are kept anyway.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from mothtrap.adapters.torch.job.graph import LossTerm, Node, nodes, operation
from mothtrap.adapters.torch.job.readable import is_plain
from mothtrap.adapters.torch.job.retained_outputs import RetainedOutputs
from mothtrap.adapters.torch.losses import loss_values
from mothtrap.adapters.torch.losses.token_inputs import are_tokens, has_decoder, sequences
from mothtrap.core.facts.losses import TargetSample
from mothtrap.statistics.torch.dtypes import type_name
from mothtrap.statistics.torch.in_place import as_array
from mothtrap.tracing.describe import next_tokens
from mothtrap.tracing.describe.copied_targets import COMPARED_ROWS, copied_places
from mothtrap.tracing.describe.loss_numbers import MAX_TARGETS, TOLERANCE
from mothtrap.tracing.describe.target_leakage import compared_rows, is_table, telling_columns
from mothtrap.tracing.describe.target_samples import MAX_CONFUSED, RANGES, surest

Array = npt.NDArray[Any]
_RESHAPES = frozenset({"view", "unsafe_view", "reshape", "squeeze", "unsqueeze", "alias"})
_DIFFERENCES = ("pow", "abs", "mul")
"""Operations of a hand-written loss that save the prediction minus the target."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Inputs of the latest training forward passes, and the latest module output.

    `calls` are the forward passes that no earlier backward pass has used. `has_loss`: the loss
    operation ran inside the forward pass, which received its targets. `decodes`: the model has a
    decoder, which may get the earlier labels.
    """

    inputs: tuple[torch.Tensor, ...]
    output: torch.Tensor | None
    calls: int = 1
    has_loss: bool = False
    decodes: bool = False


def latest_forward(retained: RetainedOutputs, loss: Node = None) -> Forward:
    """Return the stored root inputs and the last output.

    Args:
        retained: outputs of the latest forward passes.
        loss: operation of the loss.
    """
    entries = list(retained)
    inputs = tuple(t for owner, t in entries if owner is None and t is not None and is_plain(t))
    made = (t for owner, t in reversed(entries) if owner is not None and not _is_loss(owner, t))
    output = next(made, None)
    owners = [owner for owner, _ in entries]
    calls = sum(owner is None and after is not None for owner, after in itertools.pairwise(owners))
    has_loss = loss is not None and retained.made(loss)
    output = output if output is not None and is_plain(output) else None
    decodes = any(owner is not None and has_decoder(owner) for owner in owners)
    return Forward(inputs, output, calls, has_loss, decodes)


def _is_loss(owner: nn.Module, output: torch.Tensor | None) -> bool:
    """Return whether a module is a loss, whose output is not a prediction."""
    return isinstance(owner, nn.modules.loss._Loss) or (output is not None and not output.ndim)


def without_labels(forward: Forward, target: torch.Tensor, ignored: Any) -> Forward:
    """Remove the target argument of a forward pass that computes its own loss.

    This is the argument that equals the targets, one for each row. For sequences, it is the
    argument that agrees with them at the same position, or else at the next position (the model
    shifts the targets itself). If there are several, it is the last one. A forward pass of one
    sequence keeps it.

    Args:
        forward: forward pass of the model.
        target: target of the loss operation, in main memory.
        ignored: label that does not count; None = none.
    """
    if not forward.has_loss or len(forward.inputs) < 2:
        return forward
    places = [place for place, given in enumerate(forward.inputs) if are_tokens(given)]
    for place, given in enumerate(forward.inputs):
        if place not in places and _is_of(given, target):
            return _without(forward, place)
    if len(places) < 2:
        return forward
    for offset in (0, 1):
        for place in reversed(places):
            tokens = forward.inputs[place].to("cpu")
            if _lies_along(tokens, target) and next_tokens.agree(
                as_array(tokens), as_array(target), offset, ignored
            ):
                return _without(forward, place)
    return forward


def _without(forward: Forward, place: int) -> Forward:
    kept = (*forward.inputs[:place], *forward.inputs[place + 1 :])
    return dataclasses.replace(forward, inputs=kept)


def _is_of(given: torch.Tensor, target: torch.Tensor) -> bool:
    """Return whether an argument contains the targets, of which only the first may be known."""
    if given.dtype != target.dtype or given.shape[1:] != target.shape[1:]:
        return False
    return torch.equal(given.detach()[: len(target)].to("cpu"), target) if target.ndim else False


def _lies_along(tokens: torch.Tensor, target: torch.Tensor) -> bool:
    rows, length = tokens.shape
    return target.numel() in (rows * length, rows * (length - 1))


def sample(
    term: LossTerm, forward: Forward, *, checkpointed: bool, columns: bool, alone: bool = True
) -> TargetSample | None:
    """Inspect the targets of one loss operation.

    Args:
        term: the loss operation.
        forward: forward pass of the model with this loss.
        checkpointed: see `loss_values.target`.
        alone: the loss has no other term.
        columns: also search for input columns that reveal the target.
    """
    target = loss_values.target(term, checkpointed=checkpointed)
    if target is None and not checkpointed and alone and forward.calls == 1:
        target = _recovered(term, forward.output)
    if target is None:
        target = loss_values.smoothed_labels(term, checkpointed=checkpointed)
    if target is None or not target.numel() or not is_plain(target):
        return None
    with torch.no_grad():
        whole = target.detach()
        rows = max(1, MAX_TARGETS // max(1, math.prod(whole.shape[1:])))
        values = whole[:rows].to("cpu") if whole.ndim else whole.to("cpu")
        if forward.has_loss:
            ignored = _ignored_by(term)
            forward = without_labels(forward, values, ignored)
        found = _described(term, values, forward, columns=columns)
        return found if checkpointed else _embedded_or_not(found, term, values)


def _embedded_or_not(found: TargetSample, term: LossTerm, target: torch.Tensor) -> TargetSample:
    """Correct the offsets using the tokens that the model embeds."""
    offsets = found.input_offsets
    if offsets and 0 in offsets and _is_not_embedded(term, target):
        later = tuple(k for k in offsets if k)  # a decoder that shifts its own targets
        return msgspec.structs.replace(found, input_offsets=later)
    if offsets == (0, 1):
        return msgspec.structs.replace(found, decoded=_is_decoded(term, target))
    if offsets == (1,):
        return msgspec.structs.replace(found, decoded=_is_decoded_in_steps(term, target))
    return found


def with_rows(
    found: TargetSample, terms: Sequence[LossTerm], forward: Forward, *, checkpointed: bool
) -> TargetSample:
    """Add the offsets of targets whose rows are passed to the loss one at a time.

    Args:
        found: data about the targets of the first operation.
        terms: all operations of the loss.
        forward: forward pass of the model with this loss.
        checkpointed: see `loss_values.target`.
    """
    in_order = sorted(terms, key=lambda term: int(term.node._sequence_nr()))
    targets = [loss_values.target(term, checkpointed=checkpointed) for term in in_order]
    rows = [one for one in targets if one is not None and one.ndim == 1 and is_plain(one)]
    if len(rows) != len(terms) or len({len(one) for one in rows}) > 1:
        return found
    term = terms[0]
    with torch.no_grad():
        target = torch.stack([one.detach() for one in rows]).to("cpu")
        if target.is_floating_point() or target.numel() > MAX_TARGETS:
            return found
        for layout in (target, target.T.contiguous()):  # one row, or one position of every row
            offsets = _input_offsets(forward, term, layout, _ignored_by(term))
            if offsets:
                found = msgspec.structs.replace(found, input_offsets=offsets)
                return found if checkpointed else _embedded_or_not(found, term, layout)
        return found


def _ignored_by(term: LossTerm) -> int | None:
    """Return the label that a loss ignores, which its node stores as an unsigned number."""
    if operation(term.node) == "log_softmax":
        return loss_values.IGNORED
    saved = getattr(term.node, "_saved_ignore_index", None)
    return saved - (1 << 64) if saved is not None and saved >= 1 << 63 else saved


def _described(
    term: LossTerm, target: torch.Tensor, forward: Forward, *, columns: bool
) -> TargetSample:
    hard = not target.is_floating_point() and not target.is_complex()
    ignored = _ignored_by(term) if hard else None
    counted = target if ignored is None else target[target != ignored]
    finite = counted.double() if hard else counted.double()[counted.isfinite()]
    found = _telling_columns(forward.inputs, target) if columns else None
    confusion = None if any(map(are_tokens, forward.inputs)) else _confusion(term, target)
    return TargetSample(
        dtype=type_name(target.dtype),
        count=target.numel(),
        least=float(finite.min()) if finite.numel() else None,
        greatest=float(finite.max()) if finite.numel() else None,
        mean=float(finite.mean()) if finite.numel() else None,
        std=float(finite.std(correction=0)) if finite.numel() else None,
        ignored_share=1 - counted.numel() / target.numel() if ignored is not None else None,
        ignored_class=ignored if ignored in range(term.classes or 0) else None,
        outside_share=_outside_share(term, finite),
        weighted=loss_values.is_weighted(term),
        class_weights=loss_values.class_weights(term),
        input_offsets=_input_offsets(forward, term, target, ignored) if hard else None,
        sequences=_sequences(forward, term, target, ignored) if hard else None,
        telling_columns=found[0] if found else None,
        columns=found[1] if found else None,
        by_position=_is_by_position(term, forward.output),
        confusion=confusion,
        surest=_surest(term, target) if confusion is not None else None,
        normalized=_is_normalized(term),
        endings=_endings(forward, term, target, ignored) if ignored is not None else None,
        stops=_stops(forward, term, target, ignored) if ignored is not None else None,
        padding=_padding(forward, term, target, ignored) if hard else None,
        shown=_shown(forward, term, target, ignored) if hard else None,
        row_sums=_row_sums(term, target),
    )


def _telling_columns(
    inputs: Sequence[torch.Tensor], target: torch.Tensor
) -> tuple[tuple[int, ...], int] | None:
    """Return the columns of the first table of floats that leak the target."""
    tables = (x for x in inputs if x.is_floating_point() and is_table(x.shape, target.numel()))
    table = next(tables, None)
    if table is None:
        floats = [as_array(_some_rows(x)) for x in inputs if x.is_floating_point() and x.ndim > 1]
        return copied_places(floats, as_array(_some_rows(target))) if floats else None
    rows = compared_rows(table.shape)
    return telling_columns([_first_rows(table, rows)], _first_rows(target.reshape(-1), rows))


def _some_rows(values: torch.Tensor) -> torch.Tensor:
    """Return the rows on the host that are compared with a target of several numbers."""
    rows = values[:COMPARED_ROWS] if values.ndim else values
    return rows.detach().to("cpu", torch.float32 if values.is_floating_point() else values.dtype)


def _first_rows(values: torch.Tensor, rows: int) -> npt.NDArray[Any]:
    """Return the first rows on the host, in a type that NumPy supports."""
    dtype = torch.float64 if values.is_floating_point() else values.dtype
    return as_array(values[:rows].detach().to("cpu", dtype))


def _outside_share(term: LossTerm, finite_N: torch.Tensor) -> float | None:
    """Return the share of targets outside the range of the last operation before the loss."""
    bounds = _range_of(term)
    if term.operation != "elementwise" or bounds is None or not finite_N.numel():
        return None
    least, greatest = bounds
    outside = (finite_N < least - TOLERANCE) | (finite_N > greatest + TOLERANCE)
    return float(outside.double().mean())


def _range_of(term: LossTerm) -> tuple[float, float] | None:
    """Return the closed range of the last operation before the loss, if it has one."""
    return RANGES.get(next((name for name in term.chain if name != "cast"), ""))


def _recovered(term: LossTerm, output: torch.Tensor | None) -> torch.Tensor | None:
    """Return the target of a hand-written difference: the prediction minus the saved difference.

    The prediction is the output of the last module, if only reshapes are in between, and its values
    are possible results of the last operation.
    """
    bounds = _range_of(term)
    if output is None or bounds is None or operation(term.node) not in _DIFFERENCES:
        return None
    difference = loss_values.saved_prediction(term)
    if difference is None or difference.numel() != output.numel() or not difference.numel():
        return None
    if not _only_reshapes(term.node, term.source) or not output.is_floating_point():
        return None
    prediction = output.reshape(difference.shape)
    if float(prediction.min()) < bounds[0] or float(prediction.max()) > bounds[1]:
        return None
    return prediction + difference if term.target_first else prediction - difference


def _only_reshapes(node: Node, source: Node | None) -> bool:
    """Return whether a prediction meets its target element by element, in memory order."""
    while node is not None and node is not source:
        if operation(node) not in (*_RESHAPES, *_DIFFERENCES, "sub"):
            return False
        node = next((child for child, _ in node.next_functions if child is not None), None)
    return node is source


def _sequences(
    forward: Forward, term: LossTerm, target: torch.Tensor, ignored: int | None
) -> tuple[int, int] | None:
    tokens = [as_array(given) for given in sequences(forward.inputs, term.classes)]
    return next_tokens.batch_and_length(tokens, as_array(target), ignored)


def _input_offsets(
    forward: Forward, term: LossTerm, target: torch.Tensor, ignored: Any
) -> tuple[int, ...] | None:
    tokens = [as_array(given) for given in sequences(forward.inputs, term.classes)]
    return next_tokens.offsets(tokens, as_array(target), ignored)


def _is_not_embedded(term: LossTerm, target: torch.Tensor) -> bool:
    """Return whether a model embeds tokens, but never the targets at their own positions.

    A decoder that receives its targets shifts them before it embeds them, all at once or one
    position at a time.
    """
    known = _embedded(term)
    if not known:
        return False
    labels, ignored = as_array(target), _ignored_by(term)
    at_once = [as_array(tokens) for tokens in sequences(known, term.classes)]
    if 0 in (next_tokens.offsets(at_once, labels, ignored) or ()):
        return False
    # The first token is the start of each row.
    return not any(
        next_tokens.agree(steps_RL[:, 1:], labels_RL[:, 1:], 0, ignored)
        for steps_RL, labels_RL in _in_steps(known, labels)
    )


def _in_steps(embedded: Sequence[torch.Tensor], labels: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the tokens that are embedded one position at a time, with the labels.

    The first axis of the labels may be rows or positions.
    """
    steps = [as_array(t.to("cpu").reshape(-1)) for t in embedded if t.ndim == 1 or 1 in t.shape[1:]]
    if len({len(one) for one in steps}) != 1 or len(steps) * len(steps[0]) != labels.size:
        return
    steps_RL = np.stack(steps, axis=1)
    yield steps_RL, labels.reshape(steps_RL.shape)
    yield steps_RL, labels.reshape(steps_RL.T.shape).T


def _is_decoded(term: LossTerm, target: torch.Tensor) -> bool:
    """Return whether a model embeds its targets at their own positions after the other tokens."""
    tokens = [as_array(one) for one in sequences(_embedded(term), term.classes)]
    return next_tokens.are_decoded(tokens, as_array(target), _ignored_by(term))


def _is_decoded_in_steps(term: LossTerm, target: torch.Tensor) -> bool:
    """Return whether a decoder embeds each target at the position that predicts it."""
    labels, ignored = as_array(target), _ignored_by(term)
    return any(
        next_tokens.agree(steps_RL, labels_RL, 0, ignored)
        for steps_RL, labels_RL in _in_steps(_embedded(term), labels)
    )


def _embedded(term: LossTerm) -> list[torch.Tensor]:
    """Return all tokens that a model embeds, in order; empty if some cannot be read."""
    found = [node for node in nodes([term.node]) if operation(node) == "embedding"]
    found.sort(key=lambda node: node._sequence_nr())
    given = [getattr(node, "_saved_indices", None) for node in found]
    known = [one for one in given if isinstance(one, torch.Tensor) and is_plain(one)]
    return known if len(known) == len(given) else []


def _endings(
    forward: Forward, term: LossTerm, target: torch.Tensor, ignored: int
) -> next_tokens.Endings | None:
    tokens = [as_array(given) for given in sequences(forward.inputs, term.classes)]
    return next_tokens.endings(tokens, as_array(target), ignored)


def _stops(
    forward: Forward, term: LossTerm, target: torch.Tensor, ignored: int
) -> next_tokens.Stops | None:
    tokens = [as_array(given) for given in sequences(forward.inputs, term.classes)]
    return next_tokens.stops(tokens, as_array(target), ignored)


def _padding(
    forward: Forward, term: LossTerm, target: torch.Tensor, ignored: int | None
) -> tuple[int, float] | None:
    tokens = [as_array(given) for given in sequences(forward.inputs, term.classes)]
    return next_tokens.padding(tokens, as_array(target), ignored)


def _shown(
    forward: Forward, term: LossTerm, target: torch.Tensor, ignored: int | None
) -> tuple[int, int, int] | None:
    if forward.decodes:
        return None
    tokens = [as_array(given) for given in sequences(forward.inputs, term.classes)]
    return next_tokens.shown(tokens, as_array(target), ignored)


def _row_sums(term: LossTerm, target: torch.Tensor) -> tuple[float, float] | None:
    """Return the smallest and largest sum of a row of labels of a binary loss over classes."""
    if not term.operation.startswith("binary") or target.ndim != 2 or target.shape[1] < 3:
        return None
    if not bool(((target == 0) | (target == 1)).all()):
        return None
    sums = target.sum(1)
    return float(sums.min()), float(sums.max())


def _is_by_position(term: LossTerm, output: torch.Tensor | None) -> bool:
    """Return whether positions of sequences or images were laid out as rows for the loss."""
    saved = loss_values.saved_prediction(term)
    return (
        saved is not None
        and output is not None
        and output.ndim > saved.ndim
        and output.numel() == saved.numel()
    )


def _confusion(term: LossTerm, target: torch.Tensor) -> tuple[int, ...] | None:
    """Return the counts of labels by predicted class; None if there are none or too many."""
    saved = loss_values.saved_prediction(term)
    classes = term.classes
    if saved is None or not classes or not 2 <= classes <= MAX_CONFUSED:
        return None
    saved = saved[: target.shape[0]] if target.ndim and saved.ndim else saved
    if term.operation.startswith("binary"):
        if saved.shape != target.shape or not bool(((target == 0) | (target == 1)).all()):
            return None
        limit = 0.0 if term.operation.endswith("logits") else 0.5
        return loss_values.counted((saved > limit).long().to("cpu"), target.long(), classes)
    if saved.ndim < 2 or saved.shape[1] != classes:
        return None
    return loss_values.confusion(saved, target)


def _surest(term: LossTerm, target: torch.Tensor) -> tuple[int, int] | None:
    """Count the rows that the model is surest of, if each has one label."""
    rows = loss_values.probabilities(term)
    if rows is None or target.numel() != len(target):
        return None
    return surest(as_array(rows.to("cpu")), as_array(target.reshape(-1)[: len(rows)]))


def _is_normalized(term: LossTerm) -> bool | None:
    """Return whether the exponentials of the prediction sum to 1 in every row, for label losses."""
    if term.operation != "nll":
        return None
    saved = loss_values.saved_prediction(term)
    if saved is None or saved.ndim < 2:
        return None
    sums = saved[: loss_values.MAX_ROWS].float().exp().sum(1)
    return bool(((sums - 1).abs() < 0.05).all())
