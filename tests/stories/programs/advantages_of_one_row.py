"""The returns of an episode are normalized, and one episode has a single step."""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)


def whiten(values):
    mean, std = values.mean(), values.std()  # <- here
    return (values - mean) / (std + 1e-8)


class Agent:
    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        self.optimizer = torch.optim.Adam(self.policy.parameters(), 1e-3)

    def learn(self, states, actions, rewards):
        returns, total = [], 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.insert(0, total)
        returns = whiten(torch.tensor(returns))
        chosen = functional.log_softmax(self.policy(states), -1)[range(len(actions)), actions]
        loss = -(chosen * returns).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


agent = Agent()
for episode in range(40):
    steps = int(torch.randint(4, 9, ()))
    if episode == 25 and "--healthy" not in sys.argv:
        steps = 1
    moves = torch.randint(0, 2, (steps,)).tolist()
    agent.learn(torch.randn(steps, 4), moves, torch.rand(steps).tolist())
