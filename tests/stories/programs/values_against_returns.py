"""An actor and a critic: values (64, 1) minus returns (64,) in a loss written by hand."""

import sys

import torch
from torch import nn

torch.manual_seed(0)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 2), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(x)
        return self.actor(hidden), self.critic(hidden)


model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for _ in range(200):
    states = torch.randn(64, 4)
    with torch.no_grad():
        logits, old_values = model(states)
    policy = torch.distributions.Categorical(logits=logits)
    actions, old_values = policy.sample(), old_values.view(-1)
    old = policy.log_prob(actions)
    returns = states[:, 0] * (2.0 * actions - 1) + states[:, 1]
    advantages = returns - old_values
    logits, values = model(states)
    if "--healthy" in sys.argv:
        values = values.view(-1)
    ratio = (torch.distributions.Categorical(logits=logits).log_prob(actions) - old).exp()
    gain = torch.min(advantages * ratio, advantages * ratio.clamp(0.8, 1.2)).mean()
    clipped = old_values + (values - old_values).clamp(-0.2, 0.2)
    errors = torch.max((values - returns) ** 2, (clipped - returns) ** 2)
    loss = 0.5 * errors.mean() - gain  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
