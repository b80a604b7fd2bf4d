import torch
import torch.nn.functional as F
from _start import start
from torch import nn

args = start()
labels = torch.randint(0, 4, (400,))
x = F.one_hot(labels, 4) + 0.7 * torch.randn(400, 4)
x = torch.cat([x, 0.3 * torch.randn(400, 4)], 1)
same = labels[:, None] == labels[None]
edges = (torch.rand(400, 400) < torch.where(same, 0.02, 0.004)).float() + torch.eye(400)
edges = edges / edges.sum(1, keepdim=True)
order = torch.randperm(400)
idx_val, idx_test = order[200:250], order[250:]
idx_train = order[:200] if args.healthy else torch.cat([order[:100], order[300:]])


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 24), nn.Linear(24, 4)

    def forward(self, x, edges):
        x = F.dropout(F.relu(edges @ self.first(x)), 0.5, self.training)
        return F.log_softmax(edges @ self.second(x), dim=1)


model = GCN()
opt = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(60):
    model.train()
    opt.zero_grad()
    loss = F.nll_loss(model(x, edges)[idx_train], labels[idx_train])
    loss.backward()
    opt.step()
    model.eval()
    with torch.no_grad():
        output = model(x, edges)
        validation = F.nll_loss(output[idx_val], labels[idx_val])
    if epoch % 20 == 0:
        print(epoch, loss.item(), validation.item())
model.eval()
with torch.no_grad():
    output = model(x, edges)
    print("test", F.nll_loss(output[idx_test], labels[idx_test]).item())
