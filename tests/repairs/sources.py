"""Parts of scripts, and fields of findings, from which the test programs are made."""

from __future__ import annotations

LOOP = """\
for x, y in loader:
    loss = loss_fn(model(x), y)
    loss.backward()
    opt.step()  # apply
"""
NET = """\
class Net(nn.Module):
    def forward(self, x):
        return {}  # result
"""
EPOCHS = """\
model.train()
for epoch in range(3):
    for x, y in loader:
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        score = loss_fn(model(a), b)
"""
SEQUENTIAL = """\
model = nn.Sequential(
    nn.Linear(4, 3),  # the classes
    nn.Softmax(dim=1),
)
"""
AT_3 = "softmax goes into cross_entropy; the softmax is called at train.py:3"
SIGMOID_AT_3 = "the sigmoid is called at train.py:3"
FIRST = """\
model = build()
opt = torch.optim.Adam(model.parameters(), lr=0.1)  # steps
model = build()
"""
LISTED = """\
class Net(nn.Module):
    def __init__(self):
        self.parts = [nn.Linear(2, 2)]  # two
"""
MOVED = LOOP.replace("    opt.step()", "    opt.zero_grad()\n    opt.step()")
IN_ORDER = """\
loader = DataLoader(data, 32{})  # batches
for x, y in tqdm(loader):
    loss = loss_fn(model(x), y)
"""

MSE = """\
for x, y in loader:
    loss = criterion({}, y)
    loss.backward()
with torch.no_grad():
    score = criterion({}, b)
"""
SHAPES = {"evidence": {"prediction_shape": [8, 1], "target_shape": [8]}, "location": "train.py:2"}
PACED = """\
opt = torch.optim.SGD(model.parameters(), lr=0.1)
plan = torch.optim.lr_scheduler.StepLR(opt, step_size=5)
for epoch in range(9):
    for x, y in loader:
        loss_fn(model(x), y).backward()
        opt.step()
        plan.step()
    print(epoch)
"""
PER_EPOCH = PACED.replace("        plan.step()\n", "").replace(
    "    print(epoch)", "    plan.step()\n    print(epoch)"
)
FELL = {"message": "the learning rate of SGD fell from 0.1 to 1e-05", "location": "train.py:1"}
PACE = {"planned": 9, "calls": 90, "steps": 90, "passes": 9}
CUT = """\
class Net(nn.Module):
    def forward(self, x):
        h = self.encoder(x)
        h = h.detach()
        return self.head(h)
"""
NO_GRAPH = """\
class Net(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            # features
            h = self.encoder(x)
        return self.head(h)
"""
SUMMED = """\
for i, (x, y) in enumerate(loader):
    loss = ce(model(x), y)
    loss.backward()
    if (i + 1) % EVERY == 0:
        opt.step()
        opt.zero_grad()
"""
TOTAL = "for x, y in loader:\n    loss = f(x)\n    loss.backward()\n    total += loss\n"
KEPT = {"message": "the last 200 losses are all still in memory with their graphs"}
ADAM = "opt = torch.optim.Adam(model.parameters(), lr={})\n"
RATE = {
    "location": "train.py:1",
    "evidence": {"optimizer": "Adam", "learning_rate": 0.5},
}
LOG = "def entropy(p):\n    return -(p * torch.log(p)).sum()\n"
ZERO = {
    "location": "train.py:2",
    "message": "the loss is NaN; torch.log produced it from finite values "
    "(1 - p from 0 to 1, 1 of 32 values are 0)",
}
RESET = """\
for epoch in range(9):
    opt = torch.optim.Adam(model.parameters())
    train(opt)
"""
ZEROS = "model = Net()\nfor p in model.parameters():\n    nn.init.zeros_(p)\ntrain(model)\n"
SCORES = {"message": "nll_loss gets raw scores: their exponentials do not sum to 1"}
PIXELS = {"message": "0 (Linear) gets data from 0 to 255: their root mean square is 122"}
FROZEN = """\
model = Net()
for name, p in model.named_parameters():
    if "head" not in name:
        p.requires_grad = False
train(model)
"""
STILL = {"message": "99 % of the parameters of Net are frozen (limit 50 %)"}
HEAD = "model = Net()\nopt = torch.optim.Adam(model.head.parameters(), lr=0.1)\n"
PLATEAU = 'plan = ReduceLROnPlateau(opt, mode="max", patience=3)\n'
TWO = """\
for x in batches:
    loss(one(x)).backward()
    loss(two(x)).backward()
    opt.step()
    one.eval()
    two.eval()
    show(one, two)
    one.train()
two.eval()
"""
FUNCTIONS = """\
def train(model, loader, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        F.nll_loss(model(x), y).backward()
        optimizer.step()
def test(model, loader):
    with torch.no_grad():
        return sum(F.nll_loss(model(x), y) for x, y in loader)
"""
APART = FUNCTIONS.replace("    model.train()\n", "").replace(
    "    with torch", "    model.eval()\n    with torch"
)
AT_THE_END = """\
model = Net()
for x, y in loader:
    loss_fn(model(x), y).backward()
    opt.step()
with torch.no_grad():
    score = (model(a).argmax(1) == b).sum()
"""
DECORATED = FUNCTIONS.replace("    with torch.no_grad():\n    ", "").replace(
    "def test", "@torch.no_grad()\ndef test"
)
SLOW = {"location": "train.py:1", "evidence": {"optimizer": "SGD", "learning_rate": 1e-7}}
NEVER = {
    "message": "the learning rate of Adam was 0 for 50 steps",
    "location": "train.py:1",
    "evidence": {"optimizer": "Adam"},
}
MODULE = """\
class Step(LightningModule):
    def training_step(self, batch, index):
        x, y = batch
        loss = self.loss_fn(self(x), y)
        self.log("loss", loss)
"""
RECTIFIED = {"evidence": {"operation": "cross_entropy", "before": "relu"}}
NEGATIVE = {"message": "binary_cross_entropy failed: a sigmoid is missing"}
UNSHIFTED = {
    "message": "the targets are the inputs at the same position: the labels are not shifted"
}
CHUNK = """\
def get_batch(source, i):
    data = source[i:i+n]
    target = source[i:i+n].view(-1)
    return data, target
"""
CLIPPED = LOOP + "    clip_grad_norm_(model.parameters(), {})\n"
LATE = {"evidence": {"optimizer": "SGD", "clip_limit": 1.0}}
ONE_STEP = """\
def step(model, x, y):
    loss = loss_fn(model(x), y)
    loss.backward()
    opt.step()
def test(model, loader):
    model.eval()
    return sum(loss_fn(model(x), y) for x, y in loader)
"""
WITH_LOGITS = (
    NET.format("torch.sigmoid(self.out(x))")
    + "loss_fn = nn.BCEWithLogitsLoss()\nright = model(x) > 0.5\n"
)
UNSTEPPED = LOOP.replace("    opt.step()  # apply\n", "").replace(
    "    loss = ", "    opt.zero_grad()\n    loss = "
)
UNAPPLIED = {"evidence": {"why": "not stepped"}}
