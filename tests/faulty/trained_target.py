"""Q-learning in a corridor whose target is computed with a gradient."""

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

STATES, GAMMA = 8, 0.95

options = arguments()
values = nn.Sequential(nn.Linear(STATES, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(values.parameters(), lr=3e-3)
states = torch.eye(STATES)
for step in range(300):
    state = torch.randint(0, STATES - 1, (64,))
    action = torch.randint(0, 2, (64,))
    after = (state + 2 * action - 1).clamp(min=0)
    done = (after == STATES - 1).float()
    reward = done + 0.3 * torch.randn(64)
    with torch.set_grad_enabled(not options.healthy):
        target = reward + GAMMA * (1 - done) * values(states[after]).max(1).values
    predicted = values(states[state]).gather(1, action[:, None]).squeeze(1)
    loss = F.mse_loss(predicted, target)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item())
