"""A small training in which one thing, named on the command line, is done differently."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

STEPS, ROWS = 60, 16

parser = argparse.ArgumentParser()
parser.add_argument("change", nargs="?", default="nothing")
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--shuffle", type=int)
parser.add_argument("--augment", action="store_true")
change = parser.parse_args().change


class Digits(Dataset):
    """Rows with labels, in the order of `order`, with noise added on request."""

    def __init__(self, order, augment):
        generator = torch.Generator().manual_seed(5)
        self.features = torch.randn(len(order), 8, generator=generator)
        self.labels = torch.arange(len(order)) % 3
        self.order, self.augment = order, augment

    def __len__(self):
        return len(self.order)

    def __getitem__(self, index):
        row = self.features[self.order[index]]
        if self.augment:
            row = row + 0.1 * torch.randn(8)
        return row, self.labels[self.order[index]]


def order_of(change):
    order = torch.randperm(STEPS * ROWS, generator=torch.Generator().manual_seed(6)).tolist()
    if change == "swapped-sample":  # a row of step 13 and one of step 20
        order[13 * ROWS + 3], order[20 * ROWS + 7] = order[20 * ROWS + 7], order[13 * ROWS + 3]
    if change == "other-order":
        order = order[::-1]
    return order


def model_of(change):
    torch.manual_seed(1 if change == "other-initialisation" else 0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    if change == "ulp":
        with torch.no_grad():
            weight = model[3].weight.view(-1)
            weight[5] = torch.nextafter(weight[5], torch.tensor(10.0))
    if change == "buffer":
        model[0].register_buffer("scale", torch.ones(1))
    torch.manual_seed(3 if change == "dropout-seed" else 2)
    return model


def main():
    options = parser.parse_args()
    model = model_of(change)
    data = Digits(order_of(change), options.augment)
    if change == "other-sample":
        data.features[data.order[13 * ROWS + 3]] *= 1.5
    if change == "other-label":
        data.labels[data.order[13 * ROWS + 3]] = 2 - data.labels[data.order[13 * ROWS + 3]]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-2, weight_decay=0.1 if change == "decay" else 0.01
    )
    smoothing = 0.1 if change == "loss" else 0.0
    sampler = None
    if options.shuffle is not None:
        seeded = torch.Generator().manual_seed(options.shuffle)
        sampler = RandomSampler(data, num_samples=(STEPS - 6) * ROWS, generator=seeded)
    loader = DataLoader(data, ROWS, sampler=sampler, num_workers=options.workers)
    for step, (x, y) in enumerate(loader):
        if change == "extra-draw" and step == 17:
            torch.rand(1)
        if change == "rate" and step == 50:
            optimizer.param_groups[0]["lr"] = 5e-3
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=change == "bf16"):
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=smoothing)
        loss.backward()
        if change == "gradient" and step == 9:
            model[0].weight.grad[2, 3] *= 1 + 2e-7
        optimizer.step()


if __name__ == "__main__":
    main()
