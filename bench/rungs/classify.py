"""A classifier of digits, trained by Adam and evaluated after each pass."""

import torch
import torch.nn.functional as F  # noqa: N812
from _start import digits, options, score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

o = options(
    lr=1.0,
    slow=1.0,
    noise=0.0,
    dropout=0.1,
    inputs=1.0,
    eval_inputs=1.0,
    frozen=0.0,
    decay=1e-4,
    gain=1.0,
    factor=1.0,
    smooth=0.0,
    width=64,
    eval_lost=0.0,
    eval_shift=0.0,
)
x, y, x_test, y_test = digits()
if o.noise:
    wrong = torch.rand(len(y)) < o.noise
    y = torch.where(wrong, torch.randint(0, 10, y.shape), y)
x, x_test = x * o.inputs, x_test * o.inputs * o.eval_inputs + o.eval_shift
if o.eval_lost:
    x_test[:, torch.rand(64) < o.eval_lost] = 0
width = round(o.width)
model = nn.Sequential(
    nn.Linear(64, width),
    nn.ReLU(),
    nn.Dropout(o.dropout),
    nn.Linear(width, width),
    nn.ReLU(),
    nn.Dropout(o.dropout),
    nn.Linear(width, 10),
)
linears = [part for part in model if isinstance(part, nn.Linear)]
with torch.no_grad():
    for part in linears:
        part.weight.mul_(o.gain)
if o.frozen:
    held = round(o.frozen * sum(p.numel() for p in model.parameters()))
    for parameter in model.parameters():
        if parameter.numel() <= held:
            held -= parameter.numel()
            parameter.requires_grad_(False)
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=1e-3 * o.lr / o.slow, weight_decay=o.decay)
loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
for epoch in range(12):
    model.train()
    for rows, labels in loader:
        loss = F.cross_entropy(model(rows), labels, label_smoothing=o.smooth) * o.factor
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        out = model(x_test)
        print(epoch, loss.item(), F.cross_entropy(out, y_test).item())
        accuracy = (out.argmax(1) == y_test).float().mean()
score(accuracy)
