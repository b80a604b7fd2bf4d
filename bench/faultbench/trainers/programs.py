"""Data, sizes and rates of the cases, shared by the scripts of both trainers."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "cases"))

from _common import digits, mlp, tabular
from _lm import TinyLM, markov


@dataclass
class Case:
    """A model with the data and settings that one fault needs; the fault itself may be in the script."""

    model: nn.Module
    data: list
    optimizer: type = torch.optim.SGD
    rate: float = 0.05
    momentum: bool = True
    epochs: int = 5
    batch: int = 64
    shuffle: bool = True


def images():
    return digits()


def regression(columns=True):
    Xt, yt, Xv, yv = tabular("diabetes")
    m, s = yt.mean(), yt.std()
    yt, yv = (yt - m) / s, (yv - m) / s
    return [Xt, yt[:, None], Xv, yv[:, None]] if columns else [Xt, yt, Xv, yv]


def softmax_before_ce(healthy):
    return Case(mlp([64, 64, 32, 10], out_act=None if healthy else nn.Softmax(dim=1)), images(), rate=0.1)


def loss_sign_flipped(healthy):
    return Case(mlp([64, 64, 32, 10]), images(), torch.optim.Adam, 2e-3)


def zero_init(healthy):
    model = mlp([64, 64, 32, 10])
    if not healthy:
        for p in model.parameters():
            nn.init.zeros_(p)
    return Case(model, images(), rate=0.1)


def inputs_0_255(healthy):
    Xt, yt, Xv, yv = digits(scale=16.0 / 255.0)
    if healthy:
        Xt, Xv = Xt / 255.0, Xv / 255.0
    return Case(mlp([64, 64, 64, 10]), [Xt, yt, Xv, yv])


class Frozen(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.encoder, self.head, self.fixed = mlp([64, 32, 6], act=nn.Tanh), nn.Linear(6, 10), fixed

    def forward(self, x):
        if self.fixed:
            z = self.encoder(x)
        else:
            with torch.no_grad():
                z = self.encoder(x)
        return self.head(z)


def encoder_without_grad(healthy):
    return Case(Frozen(healthy), images(), torch.optim.Adam, 5e-3)


def mse_broadcast(healthy):
    return Case(mlp([10, 32, 1]), regression(columns=False), torch.optim.Adam, 3e-3, batch=32, epochs=10)


def nan_in_input(healthy):
    Xt, yt, Xv, yv = tabular("breast_cancer")
    for r, c in ((37, 4), (201, 17), (390, 4)):
        Xt[r, c] = 0.0 if healthy else float("nan")
    return Case(mlp([30, 32, 2]), [Xt, yt, Xv, yv], torch.optim.Adam, 2e-3, batch=16)


def log_of_zero_late(healthy):
    Xt, yt, Xv, yv = tabular("breast_cancer")
    yt, yv = yt.float(), yv.float()
    Xt = torch.cat([Xt, 2.2 * Xt[yt == 0][:1]])
    yt = torch.cat([yt, torch.ones(1)])
    return Case(mlp([30, 32, 1]), [Xt, yt, Xv, yv], batch=32, epochs=14)


def sorted_not_shuffled(healthy):
    Xt, yt, Xv, yv = images()
    order = torch.argsort(yt, stable=True)
    return Case(mlp([64, 64, 32, 10]), [Xt[order], yt[order], Xv, yv], batch=32, epochs=8, shuffle=healthy)


def lr_diverges(healthy):
    return Case(mlp([10, 64, 64, 1]), regression(), rate=0.01 if healthy else 4.0, momentum=False, batch=32, epochs=10)


def deep_sigmoid(healthy):
    model = mlp([64] + [64] * 10 + [10], act=nn.ReLU if healthy else nn.Sigmoid)
    for m in model if healthy else ():
        if isinstance(m, nn.Linear):
            nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
            nn.init.zeros_(m.bias)
    return Case(model, images(), rate=0.01 if healthy else 0.1)


def dying_relu(healthy):
    model = mlp([64, 64, 64, 10])
    nn.init.constant_(model[0].bias, 0.0 if healthy else -10.0)
    return Case(model, images(), torch.optim.Adam, 1e-3, epochs=8)


def labels_not_shifted(healthy):
    x = markov(900, 32, 24)
    inp, tgt = (x[:, :-1], x[:, 1:]) if healthy else (x[:, :-1], x[:, :-1])
    return Case(TinyLM(24), [inp[:750], tgt[:750], inp[750:], tgt[750:]], torch.optim.Adam, 3e-3, batch=50, epochs=8)


def overfit_small_data(healthy):
    Xt, yt, Xv, yv = regression()
    if healthy:
        model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
        return Case(model, [Xt, yt, Xv, yv], torch.optim.AdamW, 3e-3, batch=16, epochs=15)
    return Case(mlp([10, 256, 256, 1]), [Xt[:80], yt[:80], Xv, yv], torch.optim.Adam, 1e-3, batch=16, epochs=60)


def scheduler_per_batch(healthy):
    return Case(mlp([64, 64, 32, 10]), images(), batch=32, epochs=8)


CASES = {
    each.__name__: each
    for each in (
        softmax_before_ce, loss_sign_flipped, zero_init, inputs_0_255, encoder_without_grad, mse_broadcast,
        nan_in_input, log_of_zero_late, sorted_not_shuffled, lr_diverges, deep_sigmoid, dying_relu,
        labels_not_shifted, overfit_small_data, scheduler_per_batch,
    )
}
AT_LOSS = {"softmax_before_ce", "loss_sign_flipped", "mse_broadcast", "log_of_zero_late", "labels_not_shifted"}
"""Faults whose finding is placed at the line of the loss."""


def optimizer_of(case, parameters):
    more = {"momentum": 0.9} if case.optimizer is torch.optim.SGD and case.momentum else {}
    more |= {"weight_decay": 0.05} if case.optimizer is torch.optim.AdamW else {}
    return case.optimizer(parameters, lr=case.rate, **more)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()
