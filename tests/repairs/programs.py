"""Short scripts with one fault each: rule, fields of the finding, source, repaired source."""

from __future__ import annotations

from textwrap import indent

from mothtrap.core.findings import Severity

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
    "message": "the loss is NaN; torch.log made it from finite values "
    "(input from 0 to 1, 1 of 32 values are 0)",
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
    "list by name": (
        "unused_module",
        {"location": "train.py:3", "layers": ("parts",), "message": "parts is a plain list of 1"},
        LISTED.replace("self.parts = ", "parts = ") + "        self.parts = parts\n",
        LISTED.replace("self.parts = ", "parts = ") + "        self.parts = nn.ModuleList(parts)\n",
    ),
    "cleared once per epoch": (
        "stale_gradient",
        {"location": "train.py:4"},
        "for epoch in epochs:\n    opt.zero_grad()\n" + indent(LOOP, "    "),
        "for epoch in epochs:\n" + indent(LOOP + "    opt.zero_grad()\n", "    "),
    ),
    "rate of a variable": (
        "learning_rate_too_high",
        {**RATE, "location": "train.py:2"},
        "rate = 0.5\n" + ADAM.format("rate"),
        "rate = 0.001\n" + ADAM.format("rate"),
    ),
    "rate of an argument": (
        "learning_rate_too_high",
        {**RATE, "location": "train.py:2"},
        'parser.add_argument("--lr", type=float, default=0.5)\n' + ADAM.format("args.lr"),
        'parser.add_argument("--lr", type=float, default=0.001)\n' + ADAM.format("args.lr"),
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
    "column against row": (
        "loss_broadcast",
        SHAPES,
        MSE.format("model(x)", "model(a)"),
        MSE.format("model(x).squeeze(-1)", "model(a).squeeze(-1)"),
    ),
    "column minus row": (
        "loss_broadcast",
        {**SHAPES, "location": "train.py:1"},
        "loss = ((out - y) ** 2).mean()\n",
        "loss = ((out - y.reshape(out.shape)) ** 2).mean()\n",
    ),
    "schedule of epochs in each batch": ("learning_rate_zero", FELL, PACED, PER_EPOCH),
    "schedule too often": ("schedule_at_wrong_pace", {"evidence": PACE}, PACED, PER_EPOCH),
    "schedule too rarely": (
        "schedule_at_wrong_pace",
        {"evidence": {**PACE, "planned": 90, "calls": 9}},
        PER_EPOCH,
        PACED,
    ),
    "detach": (
        "disconnected_parameter",
        {"location": "train.py:4", "evidence": {"cause": "detached"}},
        CUT,
        CUT.replace("        h = h.detach()\n", ""),
    ),
    "detach upstream": (
        "disconnected_parameter",
        {"evidence": {"cause": "upstream"}},
        CUT.replace("        h = h.detach()\n", "").replace("head(h)", "head(h.detach())"),
        CUT.replace("        h = h.detach()\n", ""),
    ),
    "no_grad": (
        "disconnected_parameter",
        {"layers": ("encoder.0",), "evidence": {"cause": "without graph"}},
        NO_GRAPH,
        NO_GRAPH.replace("        with torch.no_grad():\n", "").replace("            ", "        "),
    ),
    "minus": (
        "wrong_sign",
        {"evidence": {"operation": "cross_entropy"}},
        "loss = -F.cross_entropy(model(x), y)\n",
        "loss = F.cross_entropy(model(x), y)\n",
    ),
    "log likelihood": (
        "wrong_sign",
        {"evidence": {"operation": "cross_entropy"}},
        "def f(z, y):\n    p = torch.log_softmax(z, 1).gather(1, y)\n    return p.mean()\n",
        "def f(z, y):\n    p = torch.log_softmax(z, 1).gather(1, y)\n    return -p.mean()\n",
    ),
    "maximize": (
        "wrong_sign",
        {"evidence": {"operation": "mse_loss"}},
        "opt = SGD(net.parameters(), lr=0.1, maximize=True)\n",
        "opt = SGD(net.parameters(), lr=0.1, maximize=False)\n",
    ),
    "summed": (
        "accumulation_not_averaged",
        {"evidence": {"micro_batches": 8}},
        SUMMED,
        SUMMED.replace("loss.backward()", "(loss / EVERY).backward()"),
    ),
    "kept losses": ("memory_growth", KEPT, TOTAL, TOTAL.replace("+= loss", "+= loss.item()")),
    "rows of the batch": (
        "batch_as_sequence",
        {},
        "class Net:\n    def __init__(self):\n        self.rnn = nn.LSTM(8, 16)  # two\n",
        "class Net:\n    def __init__(self):\n"
        "        self.rnn = nn.LSTM(8, 16, batch_first=True)  # two\n",
    ),
    "rate": ("learning_rate_too_high", RATE, ADAM.format("0.5"), ADAM.format("0.001")),
    "summed loss": (
        "learning_rate_too_high",
        RATE,
        ADAM.format("0.5") + 'ce = nn.CrossEntropyLoss(reduction="sum")\n',
        ADAM.format("0.5") + 'ce = nn.CrossEntropyLoss(reduction="mean")\n',
    ),
    "log of zero": (
        "nonfinite_loss",
        ZERO,
        LOG,
        LOG.replace("log(p)", "log(p.clamp(min=1e-7))"),
    ),
    "swapped": (
        "loss_arguments_swapped",
        {},
        "loss = bce_loss(model(x), y)\n",
        "loss = bce_loss(y, model(x))\n",
    ),
    "optimizer in the loop": (
        "optimizer_reset",
        {"location": "train.py:2"},
        RESET,
        "opt = torch.optim.Adam(model.parameters())\nfor epoch in range(9):\n    train(opt)\n",
    ),
    "zeros": (
        "symmetric_initialization",
        {},
        ZEROS,
        "model = Net()\ntrain(model)\n",
    ),
    "raw scores": (
        "missing_activation_range",
        SCORES,
        "loss = F.nll_loss(model(x), y)\n",
        "loss = F.cross_entropy(model(x), y)\n",
    ),
    "pixels": (
        "unnormalized_input",
        PIXELS,
        NET.format("self.out(x)"),
        NET.format("self.out(x)").replace("        return", "        x = x / 255\n        return"),
    ),
    "frozen": ("frozen_parameters", STILL, FROZEN, "model = Net()\ntrain(model)\n"),
    "only the head": (
        "parameter_without_optimizer",
        {"layers": ("body.0",)},
        HEAD,
        HEAD.replace("model.head.", "model."),
    ),
    "epsilon": (
        "epsilon_too_large",
        {"evidence": {"optimizer": "Adam"}},
        ADAM.format("1e-3, eps=1.0"),
        ADAM.format("1e-3"),
    ),
    "decay": (
        "weight_decay_dominates",
        {"evidence": {"optimizer": "Adam"}},
        ADAM.format("1e-3, weight_decay=30.0, eps=1e-8"),
        ADAM.format("1e-3, eps=1e-8"),
    ),
    "plateau": (
        "metric_watched_backwards",
        {"evidence": {"mode": "max"}},
        PLATEAU,
        PLATEAU.replace("max", "min"),
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
    "outer difference": (
        "loss_broadcast",
        {
            "evidence": {"prediction_shape": [8, 1, 5], "target_shape": [8]},
            "location": "train.py:2",
        },
        MSE.format("model(x)", "model(a)"),
        "more than a last axis",
    ),
    "schedule of batches": (
        "learning_rate_zero",
        FELL,
        PACED.replace("step_size=5", "step_size=5 * len(loader)"),
        "planned from a number of batches",
    ),
    "one cycle": (
        "learning_rate_zero",
        FELL,
        PACED.replace("StepLR", "OneCycleLR"),
        "may count batches",
    ),
    "rate of zero": (
        "learning_rate_zero",
        {"message": "the learning rate of SGD is 0 for 50 steps"},
        PACED,
        "decide its value",
    ),
    "schedule under a condition": (
        "schedule_at_wrong_pace",
        {"evidence": PACE},
        PACED.replace("        plan.step()", "        if epoch:\n            plan.step()"),
        "under a condition",
    ),
    "pretrained encoder": (
        "disconnected_parameter",
        {"evidence": {"cause": "upstream"}},
        "weights = load_state_dict(path)\n" + CUT,
        "check which weights it loads",
    ),
    "target network": (
        "disconnected_parameter",
        {"severity": Severity.WARNING, "evidence": {"cause": "without graph"}},
        NO_GRAPH,
        "frozen on purpose",
    ),
    "two minus signs": (
        "wrong_sign",
        {"evidence": {"operation": "cross_entropy"}},
        "a = -criterion(x, y)\nb = -criterion(y, x)\n",
        "2 place that turns the sign",
    ),
    "counts of others": (
        "accumulation_not_averaged",
        {"evidence": {"micro_batches": 8}},
        SUMMED.replace("EVERY", "4"),
        "counts 4 micro-batches",
    ),
    "sum that is trained": (
        "memory_growth",
        KEPT,
        TOTAL + "total.backward()\n",
        "runs backward itself",
    ),
    "two recurrences": (
        "batch_as_sequence",
        {},
        "a = nn.LSTM(8, 16)\nb = nn.GRU(8, 16)\n",
        "2 layer without batch_first",
    ),
    "usual rate": (
        "learning_rate_too_high",
        {**RATE, "evidence": {"optimizer": "Adam", "learning_rate": 0.003}},
        ADAM.format("0.003"),
        "not far above the usual",
    ),
    "rate of arguments": (
        "learning_rate_too_high",
        RATE,
        ADAM.format("args.lr"),
        "no argument --lr found",
    ),
    "high rate that learns": (
        "learning_rate_too_high",
        {**RATE, "severity": Severity.WARNING},
        ADAM.format("0.5"),
        "did not diverge",
    ),
    "log of a negative": (
        "nonfinite_loss",
        {**ZERO, "message": ZERO["message"].replace("from 0", "from -1")},
        LOG,
        "negative in places",
    ),
    "overflow": (
        "nonfinite_loss",
        {**ZERO, "message": "the loss is inf; torch.exp made it from finite values"},
        LOG,
        "not the logarithm of a 0",
    ),
    "loss of keywords": (
        "loss_arguments_swapped",
        {},
        "loss = bce_loss(input=model(x), target=y)\n",
        "loss of two arguments",
    ),
    "optimizer of each fold": (
        "optimizer_reset",
        {"location": "train.py:3"},
        "for fold in folds:\n    model = Net()\n    opt = Adam(model.parameters())\n",
        "also assigns `model`",
    ),
    "optimizer of a function": (
        "optimizer_reset",
        {"location": "train.py:2"},
        "def train(model):\n    opt = Adam(model.parameters())\n",
        "in no loop",
    ),
    "two fills": (
        "symmetric_initialization",
        {},
        ZEROS + "nn.init.ones_(model.scale)\n",
        "2 constant initialization",
    ),
    "regression behind a sigmoid": (
        "missing_activation_range",
        {"message": "99 % of the targets lie outside the range of sigmoid"},
        NET.format("torch.sigmoid(x)"),
        "must go or the targets",
    ),
    "threshold of probabilities": (
        "missing_activation_range",
        {"message": "binary_cross_entropy failed: a sigmoid is missing"},
        "loss = F.binary_cross_entropy(model(x), y)\nhit = model(x) > 0.5\n",
        "line 2 compares with a number below 1",
    ),
    "other scales": (
        "unnormalized_input",
        {"message": "0 (Linear) gets data from 0 to 9812: their root mean square is 122"},
        NET.format("self.out(x)"),
        "no pixels",
    ),
    "scaled already": (
        "unnormalized_input",
        PIXELS,
        NET.format("self.out(x / 255)"),
        "scales its input already",
    ),
    "frozen backbone": (
        "frozen_parameters",
        STILL,
        FROZEN + "model = resnet18(weights=w)\n",
        "uses `weights=`",
    ),
    "fine-tuned head": (
        "parameter_without_optimizer",
        {},
        HEAD + "model.load_state_dict(w)\n",
        "check which weights",
    ),
    "epsilon by name": (
        "epsilon_too_large",
        {"evidence": {"optimizer": "Adam"}},
        ADAM.format("1e-3, eps=EPS"),
        "not a number",
    ),
    "decay by name": (
        "weight_decay_dominates",
        {"evidence": {"optimizer": "Adam"}},
        ADAM.format("1e-3, weight_decay=DECAY"),
        "not a number",
    ),
    "mode by name": (
        "metric_watched_backwards",
        {"evidence": {"mode": "max"}},
        PLATEAU.replace('"max"', "mode"),
        "no `mode=`",
    ),
    "no Python": ("stale_gradient", {"location": "train.py:4"}, "for x in", "cannot be parsed"),
}
