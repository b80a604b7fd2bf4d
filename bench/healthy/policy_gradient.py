"""REINFORCE with a baseline on a corridor: one update per batch of episodes."""

import torch
from _common import seeded
from torch import nn
from torch.distributions import Categorical

options = seeded(updates=150)
LENGTH, HORIZON, ENVS = 7, 20, 16
policy = nn.Sequential(nn.Linear(LENGTH, 32), nn.Tanh(), nn.Linear(32, 2))
value = nn.Sequential(nn.Linear(LENGTH, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=5e-3)


def observe(position):
    return torch.nn.functional.one_hot(position, LENGTH).float()


for update in range(options.updates):
    position = torch.full((ENVS,), LENGTH // 2)
    done = torch.zeros(ENVS, dtype=torch.bool)
    log_probs, values, rewards, alive = [], [], [], []
    for _ in range(HORIZON):
        seen = observe(position)
        choice = Categorical(logits=policy(seen))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        values.append(value(seen).squeeze(1))
        alive.append(~done)
        position = (position + 2 * action - 1).clamp(0, LENGTH - 1)
        reached = position == LENGTH - 1
        rewards.append(torch.where(done, 0.0, torch.where(reached, 1.0, -0.02)))
        done = done | reached
    returns, running = [], torch.zeros(ENVS)
    for reward in reversed(rewards):
        running = reward + 0.97 * running
        returns.insert(0, running)
    returns, values = torch.stack(returns), torch.stack(values)
    mask = torch.stack(alive).float()
    advantage = (returns - values.detach()) * mask
    policy_loss = -(torch.stack(log_probs) * advantage).sum() / mask.sum()
    value_loss = (((values - returns) ** 2) * mask).sum() / mask.sum()
    loss = policy_loss + 0.5 * value_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if update % 30 == 0:
        print(f"update {update}: return {returns[0].mean().item():.3f}")
