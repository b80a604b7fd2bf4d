import torch
import torch.nn.functional as F
from _start import start
from sklearn.datasets import load_breast_cancer
from torch import nn

args = start()
data = load_breast_cancer()
x = torch.tensor(data.data, dtype=torch.float32)
y = torch.tensor(data.target, dtype=torch.float32)[:, None]
x = (x - x.mean(0)) / x.std(0)
perm = torch.randperm(len(x))
tr, va = perm[:450], perm[450:]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(30, 64), nn.Linear(64, 64), nn.Linear(64, 1)
        self.norm, self.drop = nn.BatchNorm1d(64), nn.Dropout(0.5)

    def forward(self, x):
        x = self.drop(F.relu(self.norm(self.a(x))))
        return self.c(self.drop(F.relu(self.b(x))))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(15):
    net.train()
    for rows in tr[torch.randperm(len(tr))].split(32):
        if len(rows) < 2:
            continue
        loss = F.binary_cross_entropy_with_logits(net(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    if args.healthy:
        net.eval()
    with torch.no_grad():
        total = 0.0
        for rows in va.split(40):
            total += F.binary_cross_entropy_with_logits(net(x[rows]), y[rows]).item()
    print(epoch, loss.item(), total / 3)
