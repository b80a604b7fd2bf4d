"""Padded sequences that a model with bidirectional attention gets without a mask.

Shape suffixes: R = rows, T = tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from mothtrap.adapters.torch.data.inputs import argument_names
from mothtrap.adapters.torch.job.readable import is_plain

IDS, MASK = "input_ids", "attention_mask"
"""Arguments of the models of Hugging Face, and of models written like them."""
LABELS, IGNORED = "labels", -100
"""The argument with the labels of the tokens, and the label that does not count."""
MAX_ELEMENTS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Padding that a model cannot tell from data; fields as in `UnmaskedPadding`."""

    token: int
    share: float
    padded_rows: int
    rows: int
    masked: bool


@functools.lru_cache(maxsize=256)
def takes_mask(kind: type) -> bool:
    """Return whether the forward of a class takes token ids and a mask."""
    names = argument_names(kind)
    return IDS in names and MASK in names


def unmasked(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Padding | None:
    """Describe the padding in the arguments of a model that takes a mask.

    None if the model masks the padding, if there is none, or if attention is causal.
    """
    kind: type = type(module)
    names = argument_names(kind)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    ids_RT: Any = given.get(IDS)
    mask_RT: Any = given.get(MASK)
    token = getattr(getattr(module, "config", None), "pad_token_id", None)
    if type(token) is not int or not _is_readable(ids_RT) or not _is_bidirectional(module):
        return None
    if mask_RT is not None and not (_is_readable(mask_RT) and bool((mask_RT != 0).all())):
        return None
    is_padding_RT = ids_RT == token
    after_R, before_R = _run(is_padding_RT.flip(1)), _run(is_padding_RT)
    run_R = torch.maximum(after_R, before_R)
    found, inside, padded = torch.stack(
        [run_R.sum(), is_padding_RT.sum() - run_R.sum(), (run_R > 0).sum()]
    ).tolist()
    if inside or not found or padded * ids_RT.shape[1] == found:
        return None  # an ordinary token, or whole rows of padding
    return Padding(
        token=token,
        share=found / ids_RT.numel(),
        padded_rows=padded,
        rows=len(ids_RT),
        masked=mask_RT is not None,
    )


def labeled(
    module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[int, int] | None:
    """Return the number of masked tokens with a label that counts, and of all such labels.

    None if no token of padding has such a label.
    """
    kind: type = type(module)
    given = {**dict(zip(argument_names(kind), args, strict=False)), **kwargs}
    label_RT: Any = given.get(LABELS)
    mask_RT: Any = given.get(MASK)
    if not (_is_readable(label_RT) and _is_readable(mask_RT)):
        return None
    if label_RT.shape != mask_RT.shape or label_RT.is_floating_point():
        return None
    counts_RT = label_RT != IGNORED
    padded, every = torch.stack([(counts_RT & (mask_RT == 0)).sum(), counts_RT.sum()]).tolist()
    return (padded, every) if padded else None


def _run(is_padding_RT: torch.Tensor) -> torch.Tensor:
    """Return the length of the run of padding at the beginning of each row."""
    return is_padding_RT.long().cumprod(1).sum(1)


def _is_readable(value: object) -> bool:
    if not isinstance(value, torch.Tensor) or not is_plain(value):
        return False
    return value.ndim == 2 and not value.is_complex() and 0 < value.numel() <= MAX_ELEMENTS


def _is_bidirectional(module: nn.Module) -> bool:
    """Return whether every attention layer says that it is not causal."""
    said = {getattr(part, "is_causal", None) for part in module.modules()} - {None}
    return said == {False}
