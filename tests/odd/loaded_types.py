"""A loader whose batches have a type of their own, in a named tuple."""

from typing import NamedTuple

import torch
from telling import begin, tell
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

seen = []


class Image(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Sample(NamedTuple):
    image: torch.Tensor
    label: torch.Tensor


class Images(Dataset):
    def __init__(self):
        self.values = torch.randn(60, 8).as_subclass(Image)
        self.labels = torch.randint(3, (60,)).as_subclass(Image)

    def __len__(self):
        return 60

    def __getitem__(self, index):
        return Sample(self.values[index], self.labels[index])


begin()
chosen = torch.randperm(60)[:48]
data = Subset(Images(), chosen)
loader = DataLoader(data, batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(20):
    model.train()
    for batch in loader:
        loss = criterion(model(batch.image), batch.label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        total = sum(criterion(model(b.image), b.label).item() for b in loader)
tell(model, optimizer, seen=len(seen), total=total)
chosen.resize_(100)
print(chosen.untyped_storage().resizable())
