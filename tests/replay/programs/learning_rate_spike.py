"""A schedule that divides by what is left of the warm-up: one step with a rate of 1e38.

No operation: weight 0.weight holds values that are not finite before step 111.
"""

import torch
from telling import Telling
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(15)
X = torch.randn(120 * 20, 6)
Y = X[:, :2].prod(1, keepdim=True) * 30
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: 1 / max(abs(step - 110) / 110, 3e-42)
)
tell = Telling(model)
for step in range(115):
    tell(step)
    x, y = X[step * 20 : step * 20 + 20], Y[step * 20 : step * 20 + 20]
    loss = nn.functional.mse_loss(model(x), y)  # <- here
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 100)
    optimizer.step()
    schedule.step()
