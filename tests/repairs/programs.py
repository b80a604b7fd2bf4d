"""Short scripts with one fault each: rule, fields of the finding, source, repaired source."""

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

FAULTY = {
    "zero_grad": (
        "stale_gradient",
        {"location": "train.py:4"},
        LOOP,
        LOOP + "    opt.zero_grad()\n",
    ),
    "zero_grad with tabs": (
        "stale_gradient",
        {"location": "train.py:4"},
        LOOP.replace("    ", "\t"),
        LOOP.replace("    ", "\t") + "\topt.zero_grad()\n",
    ),
    "softmax function": (
        "softmax_before_cross_entropy",
        {"message": AT_3},
        NET.format("F.softmax(self.out(x), dim=1)"),
        NET.format("self.out(x)"),
    ),
    "softmax method": (
        "softmax_before_cross_entropy",
        {"message": AT_3},
        NET.format("self.out(x).softmax(-1)"),
        NET.format("self.out(x)"),
    ),
    "softmax layer": (
        "softmax_before_cross_entropy",
        {"message": AT_3},
        SEQUENTIAL,
        SEQUENTIAL.replace("    nn.Softmax(dim=1),\n", ""),
    ),
    "sigmoid": (
        "sigmoid_before_bce_with_logits",
        {"message": SIGMOID_AT_3},
        NET.format("torch.sigmoid(self.out(x))"),
        NET.format("self.out(x)"),
    ),
    "sigmoid attribute": (
        "sigmoid_before_bce_with_logits",
        {"message": SIGMOID_AT_3},
        "class Net(nn.Module):\n    def __init__(self):\n        self.act = nn.Sigmoid()\n",
        "class Net(nn.Module):\n    def __init__(self):\n        self.act = nn.Identity()\n",
    ),
    "eval": (
        "train_mode_in_evaluation",
        {"location": "train.py:9"},
        EPOCHS.replace("    model.eval()\n", "").replace("model.train()", "model = Net()"),
        EPOCHS.replace("model.train()", "model = Net()") + "    model.train()\n",
    ),
    "train": (
        "eval_mode_in_training",
        {"location": "train.py:8", "evidence": {"trained_before": True}},
        EPOCHS,
        EPOCHS.replace("    for x, y", "    model.train()\n    for x, y"),
    ),
    "first model": (
        "optimizer_without_model",
        {},
        FIRST,
        "model = build()\nmodel = build()\n"
        "opt = torch.optim.Adam(model.parameters(), lr=0.1)  # steps\n",
    ),
    "list": (
        "unused_module",
        {"location": "train.py:3", "layers": ("parts",), "message": "parts is a plain list of 1"},
        LISTED,
        LISTED.replace("[nn.Linear(2, 2)]", "nn.ModuleList([nn.Linear(2, 2)])"),
    ),
    "cleared before the step": (
        "step_without_backward",
        {"location": "train.py:5"},
        MOVED,
        LOOP + "    opt.zero_grad()\n",
    ),
    "shuffle": (
        "unshuffled_batches",
        {"location": "train.py:3", "evidence": {"sampler": "sequential"}},
        IN_ORDER.format(", shuffle=False"),
        IN_ORDER.format(", shuffle=True"),
    ),
    "shuffle by default": (
        "unshuffled_batches",
        {"location": "train.py:3", "evidence": {"sampler": "sequential"}},
        IN_ORDER.format(""),
        IN_ORDER.format(", shuffle=True"),
    ),
    "axis": (
        "softmax_wrong_dim",
        {"message": AT_3},
        NET.format("F.log_softmax(self.out(x), dim=0)"),
        NET.format("F.log_softmax(self.out(x), dim=1)"),
    ),
}

LOOK_ALIKES = {
    "accumulation": (
        "stale_gradient",
        {"location": "train.py:5"},
        LOOP.replace("    opt.step()", "    if n % 4 == 0:\n        opt.step()"),
        "no optimizer step",
    ),
    "cleared elsewhere": (
        "stale_gradient",
        {"location": "train.py:4"},
        LOOP + "    if done: model.zero_grad()\n",
        "calls zero_grad already",
    ),
    "two optimizers": (
        "stale_gradient",
        {"location": "train.py:4"},
        LOOP + "    other.step()\n",
        "2 optimizer step",
    ),
    "probabilities are compared": (
        "sigmoid_before_bce_with_logits",
        {"message": SIGMOID_AT_3},
        NET.format("torch.sigmoid(self.out(x))") + "right = model(x) > 0.5\n",
        "line 4 compares with a number below 1",
    ),
    "probabilities are rounded": (
        "sigmoid_before_bce_with_logits",
        {"message": SIGMOID_AT_3},
        NET.format("torch.sigmoid(self.out(x))") + "right = model(x).round() == y\n",
        "line 4 rounds a value",
    ),
    "two softmaxes in a line": (
        "softmax_before_cross_entropy",
        {"message": AT_3},
        NET.format("F.softmax(a, 1) + F.softmax(b, 1)"),
        "calls softmax 2 times",
    ),
    "activation not named": (
        "softmax_before_cross_entropy",
        {"message": "the values look like probabilities"},
        NET.format("F.softmax(a, 1)"),
        "does not name the line",
    ),
    "frozen batch norm": (
        "eval_mode_in_training",
        {"location": "train.py:8", "evidence": {"trained_before": False}},
        EPOCHS,
        "never trained in training mode",
    ),
    "deliberate evaluation mode": (
        "eval_mode_in_training",
        {"location": "train.py:2", "evidence": {"trained_before": True}},
        "for epoch in e:\n    model.eval()\n    for x in loader:\n        f(model(x)).backward()\n",
        "sets evaluation mode before the training",
    ),
    "eval for another evaluation": (
        "train_mode_in_evaluation",
        {"location": "train.py:10"},
        EPOCHS,
        "calls eval\\(\\) already",
    ),
    "optimizer used in between": (
        "optimizer_without_model",
        {},
        FIRST.replace("model = build()\n", "model = build()\n", 1).replace(
            "# steps\n", "\nopt.step()\n"
        ),
        "no single optimizer",
    ),
    "sampler": (
        "unshuffled_batches",
        {"location": "train.py:3", "evidence": {"sampler": "sequential"}},
        IN_ORDER.format(", sampler=own"),
        "has a sampler",
    ),
    "slices by hand": (
        "unshuffled_batches",
        {"location": "train.py:2", "evidence": {"sampler": ""}},
        "for rows in parts:\n    f(x[rows])\n",
        "do not come from a DataLoader",
    ),
    "axis of a sequence": (
        "softmax_wrong_dim",
        {"message": AT_3},
        NET.format("F.softmax(scores, dim=2)"),
        "not over axis 0",
    ),
    "a dictionary of layers": (
        "unused_module",
        {"location": "train.py:3", "layers": ("parts",), "message": "parts is a plain list of 1"},
        LISTED.replace("[nn.Linear(2, 2)]", "make()"),
        "is not made by a list",
    ),
    "no Python": ("stale_gradient", {"location": "train.py:4"}, "for x in", "cannot be parsed"),
}
