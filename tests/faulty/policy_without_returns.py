"""A policy gradient on a bandit with a context: the loss forgets the rewards."""

import torch
from data import arguments
from torch import nn

options = arguments()
policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
best = torch.randn(6, 4)
for step in range(200):
    state = torch.randn(32, 6)
    choices = torch.distributions.Categorical(logits=policy(state))
    action = choices.sample()
    reward = (action == (state @ best).argmax(1)).float()
    score = choices.log_prob(action)
    loss = -(score * (reward - reward.mean()) if options.healthy else score).mean()  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item(), reward.mean().item())
