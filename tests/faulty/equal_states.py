"""Q-learning in a plane, with an environment that changes the stored state in place."""

import copy
import random

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from data import arguments
from torch import nn

MOVES = np.array([[0.1, 0.0], [-0.1, 0.0], [0.0, 0.1], [0.0, -0.1]], dtype=np.float32)


class Plane:
    """A walk to the middle of a square; the array of the state is always the same one."""

    def __init__(self):
        self.state = np.zeros(2, dtype=np.float32)

    def reset(self):
        self.state[:] = np.random.uniform(-1, 1, 2)
        return self.state

    def step(self, action):
        self.state += MOVES[action] + np.random.normal(0, 0.01, 2)
        return self.state, -float(np.abs(self.state).sum())


options = arguments()
random.seed(options.seed)
np.random.seed(options.seed)
values = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 4))  # <- here
target_values = copy.deepcopy(values).requires_grad_(False)
optimizer = torch.optim.Adam(values.parameters(), lr=1e-3)
world, memory = Plane(), []
for step in range(220):
    if step % 20 == 0:
        state = world.reset()
    action = random.randrange(4)
    before = state.copy() if options.healthy else state
    state, reward = world.step(action)
    after = state.copy()
    memory.append((before if options.healthy else before.copy(), action, reward, after))
    if len(memory) < 64:
        continue
    batch = random.sample(memory, 32)
    s, s2 = (torch.as_tensor(np.stack([row[k] for row in batch])) for k in (0, 3))
    a, r = torch.tensor([row[1] for row in batch]), torch.tensor([row[2] for row in batch])
    target = r + 0.9 * target_values(s2).max(1).values
    loss = F.smooth_l1_loss(values(s).gather(1, a[:, None])[:, 0], target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for slow, fast in zip(target_values.parameters(), values.parameters(), strict=True):
        slow.data.lerp_(fast.data, 0.05)
    if step % 50 == 0:
        print(step, loss.item())
