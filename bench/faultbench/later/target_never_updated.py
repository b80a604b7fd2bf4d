import copy

import torch
import torch.nn.functional as F
from _start import start
from torch import nn

args = start()
STATES, ACTIONS = 8, 2
q = nn.Sequential(nn.Linear(STATES, 32), nn.ReLU(), nn.Linear(32, ACTIONS))
target = copy.deepcopy(q)
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
memory = []
place = 0
for step in range(5000):
    state = F.one_hot(torch.tensor(place), STATES).float()
    if torch.rand(()) < 0.3:
        action = int(torch.randint(ACTIONS, ()))
    else:
        with torch.no_grad():
            action = int(q(state[None]).argmax())
    place = min(STATES - 1, place + 1) if action else max(0, place - 1)
    reward, done = float(place == STATES - 1), place == STATES - 1
    after = F.one_hot(torch.tensor(place), STATES).float()
    memory.append((state, action, reward, after, float(done)))
    place = 0 if done else place
    if len(memory) < 32:
        continue
    rows = [memory[i] for i in torch.randint(len(memory), (32,)).tolist()]
    states, afters = torch.stack([r[0] for r in rows]), torch.stack([r[3] for r in rows])
    actions = torch.tensor([r[1] for r in rows])
    rewards, ends = torch.tensor([r[2] for r in rows]), torch.tensor([r[4] for r in rows])
    value = q(states).gather(1, actions[:, None]).squeeze(1)
    with torch.no_grad():
        best = target(afters).max(1).values
    loss = F.smooth_l1_loss(value, rewards + 0.95 * (1 - ends) * best)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if args.healthy and step % 1000 == 0:
        target.load_state_dict(q.state_dict())
    if step % 500 == 0:
        print(step, loss.item())
