"""A sample that cannot be read, in a worker of the loader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Records(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        record = {"x": torch.randn(4)} if index != 9 else {}
        return record["x"]


if __name__ == "__main__":
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Records(), batch_size=4, num_workers=1)
    for x in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
