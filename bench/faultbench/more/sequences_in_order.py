import torch
from _start import start
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = start()
N, T, K = 1200, 16, 4
y = torch.arange(N) * K // N
t = torch.arange(T)
x = torch.sin((y[:, None] + 1) * 0.5 * t + torch.rand(N, 1) * 6.28)[..., None] + 0.3 * torch.randn(N, T, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=args.healthy)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(1, 32, batch_first=True), nn.Linear(32, K)

    def forward(self, x):
        return self.out(self.gru(x)[1][-1])


model = Classifier()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(6):
    total = 0.0
    for bx, by in loader:
        opt.zero_grad()
        loss = loss_fn(model(bx), by)
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, total / len(loader))
