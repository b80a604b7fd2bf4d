"""Two loader workers, enumerate; dropout and a last smaller batch; all at module level."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(70, 5), torch.randint(0, 3, (70,)))
loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=2)
model = nn.Sequential(
    nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3)
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
for _ in range(3):
    for number, (x, y) in enumerate(loader):  # noqa: B007  # as many write it
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
