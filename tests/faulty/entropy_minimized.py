"""A policy gradient on a corridor: the entropy is added to the loss instead of subtracted."""

import torch
from data import arguments
from torch import nn

options = arguments()


class Corridor:
    """An environment in which only steps to the right are rewarded."""

    def reset(self):
        self.place = 3
        return self.state()

    def step(self, action):
        self.place += 1 if action else -1
        done = self.place in (0, 7)
        return self.state(), float(self.place == 7) - 0.05, done

    def state(self):
        return nn.functional.one_hot(torch.tensor(self.place), 8).float()


environment = Corridor()
policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
for episode in range(60):
    state, done = environment.reset(), False
    scores, rewards, entropies = [], [], []
    while not done and len(rewards) < 20:
        choices = torch.distributions.Categorical(logits=policy(state))
        action = choices.sample()
        scores.append(choices.log_prob(action))
        entropies.append(choices.entropy())
        state, reward, done = environment.step(int(action))
        rewards.append(reward)
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
    gain, entropy = (torch.stack(scores) * returns).sum(), torch.stack(entropies).mean()
    loss = -gain - 0.05 * entropy if options.healthy else -gain + 0.05 * entropy  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if episode % 25 == 0:
        print(episode, loss.item(), sum(rewards))
