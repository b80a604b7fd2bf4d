"""Two workers of a loader each read the whole stream."""

import torch
from data import arguments, curve
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

options = arguments()
source = curve()
records = [next(source) for _ in range(24)]


class Records(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        yield from records[info.id :: info.num_workers] if options.healthy else records


model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.MSELoss()
stream = DataLoader(Records(), batch_size=None, num_workers=2)
for epoch in range(2):
    for x, y in stream:  # <- here
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
