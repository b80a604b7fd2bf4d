"""Arguments, seeds and data of the programs here."""

import argparse
import random

import numpy as np
import torch


def start():
    parser = argparse.ArgumentParser()
    parser.add_argument("--healthy", action="store_true", help="run the repaired twin")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    return args


def digits(image=False):
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.RandomState(0).permutation(len(data.target))
    x = torch.tensor(data.data[order], dtype=torch.float32) / 16
    y = torch.tensor(data.target[order])
    if image:
        x = x.view(-1, 1, 8, 8)
    return x[:1400], y[:1400], x[1400:], y[1400:]


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()
