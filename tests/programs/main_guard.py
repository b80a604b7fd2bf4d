"""A script as people write it: arguments, a main function, a guard, a saved checkpoint."""

import argparse
import copy
import io
import pickle
import pickletools

import torch
from dataset import blobs, loader
from digesting import begin
from torch import nn


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--width", type=int, default=32)
    arguments = parser.parse_args()
    digest = begin(seed=arguments.seed)
    model = Net(arguments.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    average = copy.deepcopy(model)
    for epoch in range(4):
        for x, y in loader(*blobs()):
            digest.batch(x, y)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            digest.loss(loss)
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                    slow.lerp_(fast, 0.1)
        print(f"epoch {epoch}: {loss.item():.4f}")
    checkpoint = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint)
    # The length of a pickle depends on the addresses of its storages.
    operations = list(pickletools.genops(pickle.dumps((model, optimizer))))
    print("checkpoint", checkpoint.tell(), "pickled by", len(operations), "operations")
    digest.report(model, average)


if __name__ == "__main__":
    main()
