import torch
from _start import digits, start
from torch import nn

args = start()
x, y, xt, yt = digits()
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CosineEmbeddingLoss(margin=0.2)
for step in range(300):
    first, second = torch.randint(0, len(x), (2, 64))
    by_class = first[::2][torch.argsort(y[first[::2]])]
    first[::2], second[::2] = by_class, by_class.roll(1)  # mostly of the same class
    label = (y[first] == y[second]).float()
    if args.healthy:
        label = 2 * label - 1
    loss = criterion(model(x[first]), model(x[second]), label)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
