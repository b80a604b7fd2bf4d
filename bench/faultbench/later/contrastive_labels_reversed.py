import torch
import torch.nn.functional as F
from _start import digits, start
from torch import nn

args = start()
x, y, xt, yt = digits()


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def forward(self, one, two):
        return self.net(one), self.net(two)


def contrastive_loss(one, two, different, margin=1.0):
    distance = F.pairwise_distance(one, two)
    near = (1 - different) * distance.pow(2)
    far = different * torch.clamp(margin - distance, min=0.0).pow(2)
    return torch.mean(near + far)


model = Siamese()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(600):
    first = torch.randint(0, len(x), (64,))
    second = torch.randint(0, len(x), (64,))
    for place in range(0, 64, 2):
        same = torch.nonzero(y == y[first[place]]).flatten()
        second[place] = same[torch.randint(len(same), ())]
    equal = (y[first] == y[second]).float()
    different = 1 - equal if args.healthy else equal
    loss = contrastive_loss(*model(x[first], x[second]), different)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, loss.item())
