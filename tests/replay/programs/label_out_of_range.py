"""A class label that is one too high: the loss raises IndexError.

Operation torch.nn.functional.cross_entropy, row 6, step 117, an exception. A trainer class.
"""

import torch
from telling import Telling
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Flowers(Dataset):
    """Four classes; sample 1410 is of a fifth."""

    def __init__(self):
        self.centers = torch.randn(4, 10)

    def __len__(self):
        return 12 * 130

    def __getitem__(self, index):
        noise = torch.randn(10, generator=torch.Generator().manual_seed(index))
        label = 4 if index == 117 * 12 + 6 else index % 4
        return {"features": self.centers[index % 4] + noise, "label": label}


class Trainer:
    """Trains a classifier for one epoch."""

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 4))
        self.loader = DataLoader(Flowers(), batch_size=12)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loss = nn.CrossEntropyLoss()
        self.tell = Telling(self.model)

    def fit(self):
        """Take every batch once."""
        for step, batch in enumerate(self.loader):
            self.tell(step)
            self.optimizer.zero_grad()
            loss = self.loss(self.model(batch["features"]), batch["label"])  # <- here
            loss.backward()
            self.optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(6)
    Trainer().fit()
