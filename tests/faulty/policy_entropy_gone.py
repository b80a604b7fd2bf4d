"""A policy gradient on a bandit with a context: a term of the loss rewards certainty."""

import torch
from data import arguments
from torch import nn

options = arguments()
policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-2)
best = torch.randn(6, 4)
for step in range(200):
    state = torch.randn(64, 6)
    choices = torch.distributions.Categorical(logits=policy(state))
    action = choices.sample()
    reward = (action == (state @ best).argmax(1)).float()
    entropy = choices.entropy().mean()
    loss = -(choices.log_prob(action) * (reward - reward.mean())).mean()  # <- here
    certainty = choices.probs.square().sum(-1).mean()
    loss = loss - 0.01 * entropy if options.healthy else loss - 8 * certainty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, entropy.item(), reward.mean().item())
