"""Tokens among the inputs of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from mothtrap.tracing.describe import next_tokens
from mothtrap.tracing.describe.loss_numbers import MAX_TARGETS


def has_decoder(module: nn.Module) -> bool:
    """Return whether a module is a decoder, or a model of Hugging Face that has one."""
    config = vars(module).get("config")
    return "Decoder" in type(module).__name__ or getattr(config, "is_encoder_decoder", None) is True


def sequences(inputs: Sequence[torch.Tensor], classes: int | None) -> Iterator[torch.Tensor]:
    """Yield every token input of a model, as integers (rows, length) in main memory.

    A single sequence is one row. Tokens may also be one-hot over the classes of the loss.
    """
    for tensor in inputs:
        if are_tokens(tensor):
            yield tensor.to("cpu")
        elif tensor.ndim == 1 and are_tokens(tensor[None]):
            yield tensor[None].to("cpu")
        elif (
            tensor.is_floating_point()
            and tensor.ndim == 3
            and tensor.shape[-1] == classes
            and tensor.numel() <= next_tokens.MAX_ONE_HOT
        ):
            values = tensor.detach().to("cpu")
            if bool(((values == 0) | (values == 1)).all()) and bool((values.sum(-1) == 1).all()):
                yield values.argmax(-1)


def are_tokens(tensor: torch.Tensor) -> bool:
    """Return whether a model input contains integer sequences: (rows, length), or transposed."""
    return (
        tensor.ndim == 2
        and tensor.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
        and min(tensor.shape) >= 1
        and max(tensor.shape) >= 4
        and tensor.numel() <= MAX_TARGETS
    )
