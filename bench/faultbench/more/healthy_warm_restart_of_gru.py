import torch
from _start import start
from torch import nn

args = start()
t = torch.arange(3000) * 0.1
wave = torch.sin(t) + 0.3 * torch.sin(3.1 * t) + 0.05 * torch.randn(3000)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(1, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, x):
        return self.out(self.gru(x)[0])


model = Forecaster()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=60)
for step in range(240):
    begin = torch.randint(0, 2900, (24,))
    window = torch.stack([wave[b : b + 33] for b in begin])[..., None]
    loss = nn.functional.mse_loss(model(window[:, :-1]), window[:, 1:])
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    sched.step()
    if step % 40 == 0:
        print(step, loss.item())
