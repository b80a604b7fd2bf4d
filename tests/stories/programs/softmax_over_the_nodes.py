"""A graph network whose log-softmax runs over the nodes, some of which have labels."""

import sys

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
NODES, CLASSES = 600, 7
over = 1 if "--healthy" in sys.argv else 0
y = torch.randint(0, CLASSES, (NODES,))
x = 0.6 * nn.functional.one_hot(y, CLASSES).float() @ torch.randn(CLASSES, 30)
x += torch.randn(NODES, 30)
near = torch.rand(NODES, NODES) < torch.where(y[:, None] == y, 0.03, 0.003)
adjacency = (near.float() + torch.eye(NODES)).to_sparse()
degrees = torch.sparse.sum(adjacency, dim=1).to_dense()
labelled, held_out = torch.arange(0, 140), torch.arange(200, 400)


class Convolution(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
        return torch.sparse.mm(adjacency, self.linear(x)) / degrees[:, None]


class GraphNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Convolution(30, 16), Convolution(16, CLASSES)

    def forward(self, x: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
        hidden = functional.dropout(
            functional.relu(self.first(x, adjacency)), 0.5, training=self.training
        )
        return functional.log_softmax(self.second(hidden, adjacency), dim=over)


model = GraphNetwork()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(100):
    model.train()
    optimizer.zero_grad()
    output = model(x, adjacency)
    loss = functional.nll_loss(output[labelled], y[labelled])  # <- here
    loss.backward()
    optimizer.step()
    model.eval()
    output = model(x, adjacency)
    validation = functional.nll_loss(output[held_out], y[held_out])
print(loss.item(), validation.item())
