"""A small transformer that trains on a device, with a fault on request.

Run: python bench/gpu_program.py KIND DEVICE WIDTH STEPS

KIND is `plain`, `bf16`, `compiled`, `nan` (a layer divides by zero at half of the steps), `memory`
(a tensor that fits into no device), or `index` (a token that the embedding does not have). Prints
the median step time of the last half of the steps in milliseconds.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time

import torch
from torch import nn

VOCABULARY, LENGTH, BATCH, HEADS = 256, 64, 16, 4
TOO_MANY = 1 << 46
"""Elements of a tensor of 256 TB."""


class Model(nn.Module):
    """Embedding, two transformer layers, and a head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, HEADS, 4 * width, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, VOCABULARY)
        self.divisor = 1.0

    def forward(self, token_BT: torch.Tensor) -> torch.Tensor:
        """Return logits, (B, T, V)."""
        hidden = self.blocks(self.embed(token_BT))
        return self.head((hidden - hidden.mean() * (self.divisor == 0)) * self._scale(hidden))

    def _scale(self, hidden: torch.Tensor) -> torch.Tensor:
        zero = torch.zeros((), device=hidden.device)
        return zero / zero if self.divisor == 0 else zero + 1


def main(kind: str, device: str, width: int, steps: int) -> None:
    """Train."""
    torch.manual_seed(0)
    model = Model(width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    run = torch.compile(model) if kind == "compiled" else model
    times_s = []
    for step in range(steps):
        began_s = time.perf_counter()
        token_BT = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), device=device)
        half = step == steps // 2
        if kind == "index" and half:
            token_BT[3, 5] = VOCABULARY
        if kind == "memory" and half:
            torch.empty(TOO_MANY, device=device)
        model.divisor = 0.0 if kind == "nan" and half else 1.0
        mixed = torch.autocast(torch.device(device).type, torch.bfloat16)
        with mixed if kind == "bf16" else contextlib.nullcontext():
            logits = run(token_BT[:, :-1])
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1), token_BT[:, 1:].clamp(max=VOCABULARY - 1).flatten()
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()  # waits for the device
        times_s.append(time.perf_counter() - began_s)
    print(f"median {1e3 * statistics.median(times_s[steps // 2 :]):.3f} ms")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
