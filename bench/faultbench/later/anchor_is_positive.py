import torch
import torch.nn.functional as F
from _start import digits, start
from torch import nn

args = start()
x, y, xt, yt = digits()
rows_of = [torch.nonzero(y == label).flatten() for label in range(10)]


def rows(labels):
    return torch.stack([rows_of[k][torch.randint(len(rows_of[k]), ())] for k in labels.tolist()])


model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(300):
    label = torch.randint(0, 10, (48,))
    other = (label + torch.randint(1, 10, (48,))) % 10
    anchor = rows(label)
    positive = rows(label) if args.healthy else anchor
    a, p, n = (model(x[each]) for each in (anchor, positive, rows(other)))
    loss = F.triplet_margin_loss(a, p, n, margin=0.5)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
