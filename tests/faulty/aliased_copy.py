"""Q-learning on a line, whose target network is the trained network itself."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

options = arguments()
policy_net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
target_net = copy.deepcopy(policy_net) if options.healthy else policy_net  # <- here
optimizer = torch.optim.Adam(policy_net.parameters(), lr=1e-3)
for step in range(200):
    state = torch.rand(32, 2) * 2 - 1
    action = torch.randint(0, 2, (32,))
    after = state + 0.2 * torch.stack([action * 2.0 - 1, torch.zeros(32)], 1)
    reward = -after[:, 0].abs()
    with torch.no_grad():
        target = reward + 0.9 * target_net(after).max(1).values
    value = policy_net(state).gather(1, action[:, None])[:, 0]
    loss = F.smooth_l1_loss(value, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        target_net.load_state_dict(policy_net.state_dict())
        print(step, loss.item())
