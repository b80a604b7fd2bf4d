"""Further short scripts, with a fault in the model, the update, or the settings."""

from __future__ import annotations

from tests.repairs.sources import ADAM, PIXELS, RATE

CLIMBS = {"message": "the script's own update moves w along the gradient of the loss"}
ENDLESS = {"message": "the loss fell from 1.8e+04 to -4.9e+12 and has no lower bound"}
VARIATIONAL = "KLD = 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())\nloss = BCE + KLD\n"
CLOSURE = """\
def closure():
    '''Return the loss.'''
    loss = criterion(model(x), y)
    loss.backward()
    return loss
for epoch in range(9):
    optimizer.step(closure)
"""
EVALUATED = {
    "message": "in 20 evaluations of its closure, LBFGS applied gradients that were not cleared"
}
UNCALLED = """\
for x, y in loader:
    opt.zero_grad
    loss = loss_fn(model(x), y)
    loss.backward
    opt.step
"""
CALLED = (
    UNCALLED.replace("grad\n", "grad()\n")
    .replace("ward\n", "ward()\n")
    .replace("step\n", "step()\n")
)
SUMS = "ce = nn.CrossEntropyLoss(reduction='sum')\nopt = SGD(model.parameters(), lr=0.05)\n"
SMALL = {"message": "the mean absolute gradient of 6 of 6 weights is 1e-11 (limit 1e-07)"}
AHEAD = {"evidence": {"offset": 1, "looks_ahead": "attention"}}
ATTENTION = "y = F.scaled_dot_product_attention(q, k, v{})\n"
MULTIPLIED = {"message": "the scores of layer.1 are multiplied by sqrt(64)"}
SCORED = """\
def forward(self, q, k, v):
    scores = torch.matmul(q, k.transpose(-1, -2)) {} np.sqrt(64)
    return torch.matmul(scores.softmax(-1), v)
def embed(self, x):
    return self.table(x) * math.sqrt(64)
"""
GROUPED = "opt = torch.optim.Adam(optim_groups, lr=config.learning_rate)\n"
SHAPED = {"evidence": {"prediction_shape": [8, 1], "target_shape": [8]}, "location": "train.py:1"}
TAUGHT = {
    "message": "the target of the loss has a gradient in 20 of 20 backward passes",
    "location": "train.py:2",
}
Q_LEARNING = "target = r + q(s2).max(1).values\nloss = F.mse_loss(q(s).gather(1, a), target)\n"
GAME = """\
class Generator(nn.Module):
    pass
class Discriminator(nn.Module):
    body = nn.Linear(4, 1)
netG = Generator()
netD = Discriminator().to(device)
optimizerG = optim.Adam(netG.parameters(), lr=0.1)
optimizerD = optim.Adam({}.parameters(), lr=0.1)
"""
SCALED = {"message": "the weights of fc1 (Linear, 784 inputs) have a root mean square of 10"}

TWO = """\
for x in loader:
    optimizer_G.zero_grad()
    g_loss = loss(D(G(z)), real)
    g_loss.backward()
    optimizer_G.step()
    d_real = loss(D(x), real)
    d_real.backward()
    d_fake = loss(D(G(z).detach()), fake)
    d_fake.backward()
    optimizer_D.step()
"""
PARTS = """\
for x in loader:
    optimizer.zero_grad()
    policy_loss = f(x)
    value_loss = g(x)
    loss = policy_loss + value_loss
    loss.backward()
    optimizer.step()
"""
SEVERAL = """\
class Model(nn.Module):
    def forward(self, x):
        out = self.sigmoid(self.l1(x))
        y_pred = self.sigmoid(self.l2(out))
        return y_pred
"""

OF_MODELS = {
    "one of two optimizers is not cleared": (
        "stale_gradient",
        {"location": "train.py:10"},
        TWO,
        TWO.replace("    d_real.b", "    optimizer_D.zero_grad()\n    d_real.b"),
    ),
    "the first of two optimizers is not cleared": (
        "stale_gradient",
        {"location": "train.py:4"},
        TWO.replace("    optimizer_G.zero_grad()\n", "").replace(
            "    d_real.b", "    optimizer_D.zero_grad()\n    d_real.b"
        ),
        TWO.replace("    optimizer_G.zero_grad()\n", "")
        .replace("    g_loss.b", "    optimizer_G.zero_grad()\n    g_loss.b")
        .replace("    d_real.b", "    optimizer_D.zero_grad()\n    d_real.b"),
    ),
    "no backward of a sum of losses": (
        "step_without_backward",
        {"evidence": {"absent": True}},
        PARTS.replace("    loss.backward()\n", ""),
        PARTS,
    ),
    "sigmoid with several calls": (
        "sigmoid_before_bce_with_logits",
        {"message": "sigmoid goes into binary cross-entropy with logits"},
        SEVERAL,
        SEVERAL.replace("self.sigmoid(self.l2(out))", "self.l2(out)"),
    ),
    "update that climbs": (
        "wrong_sign",
        CLIMBS,
        "w1 += lr * w1.grad\nw2 -= lr * w2.grad\nbuffer += w3.grad\n",
        "w1 -= lr * w1.grad\nw2 -= lr * w2.grad\nbuffer += w3.grad\n",
    ),
    "update of each parameter that climbs": (
        "wrong_sign",
        CLIMBS,
        "for p in model.parameters():\n    p.data.add_(p.grad, alpha=lr)\n",
        "for p in model.parameters():\n    p.data.add_(p.grad, alpha=-lr)\n",
    ),
    "product that climbs": (
        "wrong_sign",
        CLIMBS,
        "w.add_(lr * w.grad)\nb.data = b.data + lr * b.grad.data\nc.sub_(c.grad, alpha=-lr)\n",
        "w.sub_(lr * w.grad)\nb.data = b.data - lr * b.grad.data\nc.add_(c.grad, alpha=-lr)\n",
    ),
    "divergence subtracted": (
        "wrong_sign",
        ENDLESS,
        "def loss_function(a, b):\n    return BCE - KLD\n",
        "def loss_function(a, b):\n    return BCE + KLD\n",
    ),
    "divergence without its minus": (
        "wrong_sign",
        ENDLESS,
        VARIATIONAL,
        VARIATIONAL.replace("0.5 *", "-0.5 *"),
    ),
    "exploding momentum": (
        "exploding_gradient",
        {},
        "opt = SGD(model.parameters(), lr=rate, momentum=1.1)\n",
        "opt = SGD(model.parameters(), lr=rate, momentum=0.9)\n",
    ),
    "closure": (
        "stale_gradient",
        EVALUATED,
        CLOSURE,
        CLOSURE.replace("    loss = ", "    optimizer.zero_grad()\n    loss = "),
    ),
    "step without brackets": (
        "update_dropped",
        {"evidence": {"why": "not stepped"}},
        UNCALLED.replace("zero_grad", "zero_grad()").replace("backward", "backward()"),
        CALLED,
    ),
    "backward without brackets": (
        "step_without_backward",
        {"evidence": {"absent": True}},
        UNCALLED.replace("zero_grad", "zero_grad()").replace("step", "step()"),
        CALLED,
    ),
    "zero_grad without brackets": (
        "stale_gradient",
        {"location": "train.py:5"},
        UNCALLED.replace("step", "step()").replace("backward", "backward()"),
        CALLED,
    ),
    "endless momentum": (
        "learning_rate_too_high",
        {"location": "train.py:1", "evidence": {"optimizer": "SGD", "learning_rate": 0.05}},
        "opt = SGD(model.parameters(), lr=rate, momentum=1.1)\n",
        "opt = SGD(model.parameters(), lr=rate, momentum=0.9)\n",
    ),
    "sum that explodes": (
        "exploding_gradient",
        {},
        SUMS,
        SUMS.replace("'sum'", '"mean"'),
    ),
    "tiny loss": (
        "vanishing_gradient",
        SMALL,
        "loss = loss_fn(model(x), y)\nloss = loss * 1e-9\nloss.backward()\n",
        "loss = loss_fn(model(x), y)\nloss.backward()\n",
    ),
    "tiny loss in one line": (
        "vanishing_gradient",
        SMALL,
        "loss = loss_fn(model(x), y)\n(loss / 1e8).backward()\n",
        "loss = loss_fn(model(x), y)\nloss.backward()\n",
    ),
    "mask switched off": (
        "causal_leak",
        AHEAD,
        ATTENTION.format(", is_causal=False"),
        ATTENTION.format(", is_causal=True"),
    ),
    "no mask": (
        "causal_leak",
        AHEAD,
        ATTENTION.format(""),
        ATTENTION.format(", is_causal=True"),
    ),
    "scores multiplied": (
        "attention_logit_growth",
        MULTIPLIED,
        SCORED.format("*"),
        SCORED.format("/"),
    ),
    "rate of the settings": (
        "learning_rate_too_high",
        RATE,
        GROUPED + "config.learning_rate = 0.5\nconfig.dropout = 0.5\n",
        GROUPED + "config.learning_rate = 0.001\nconfig.dropout = 0.5\n",
    ),
    "rate of another file": (
        "learning_rate_too_high",
        {**RATE, "location": None},
        "@dataclass\nclass Settings:\n    learning_rate: float = 5e-1\n",
        "@dataclass\nclass Settings:\n    learning_rate: float = 0.001\n",
    ),
    "rate of a function": (
        "learning_rate_too_low",
        {"location": "train.py:2", "evidence": {"optimizer": "Adam", "learning_rate": 1e-8}},
        "def train(lr=1e-8):\n    " + ADAM.format("lr"),
        "def train(lr=0.001):\n    " + ADAM.format("lr"),
    ),
    "column minus a part": (
        "loss_broadcast",
        SHAPED,
        "loss = ((value - returns[rows]) ** 2).mean()\n",
        "loss = ((value - returns[rows].reshape(value.shape)) ** 2).mean()\n",
    ),
    "column of a model minus a row": (
        "loss_broadcast",
        SHAPED,
        "loss = (net(x) - y).pow(2).mean()\n",
        "loss = (net(x).reshape(y.shape) - y).pow(2).mean()\n",
    ),
    "optimizer of the other player": (
        "optimizer_without_model",
        {"location": "train.py:4"},
        GAME.format("netG"),
        GAME.format("netD"),
    ),
    "second optimizer of one player": (
        "parameter_without_optimizer",
        {"location": "train.py:4", "layers": ("body",)},
        GAME.format("netG"),
        GAME.format("netD"),
    ),
    "large weights": (
        "poor_initialization",
        SCALED,
        "nn.init.normal_(m.weight, 0.0, 2.0)\nnn.init.normal_(m.bias, 0.0, 1.0)\n",
        "nn.init.normal_(m.weight, 0.0, 0.02)\nnn.init.normal_(m.bias, 0.0, 1.0)\n",
    ),
    "tiny weights": (
        "poor_initialization",
        {"message": "the weights of 4 hidden layers are so small that the output of 4 is 1e-9x"},
        "m.weight.data.normal_(mean=0.0, std=1e-6)\n",
        "m.weight.data.normal_(mean=0.0, std=0.02)\n",
    ),
    "multiplied weights": (
        "poor_initialization",
        SCALED,
        "model = Net()\nmodel.fc1.weight.data *= 50\ntrain(model)\n",
        "model = Net()\ntrain(model)\n",
    ),
    "target of Q-learning": (
        "trained_target",
        TAUGHT,
        Q_LEARNING,
        Q_LEARNING.replace(", target)", ", target.detach())"),
    ),
}

SIMILAR = {
    "sum of gradients": (
        "wrong_sign",
        CLIMBS,
        "total += w.grad\nv = v + w.grad\nw -= lr * v\n",
        "no line adds the gradient",
    ),
    "deep model that explodes": (
        "exploding_gradient",
        {},
        SUMS.replace("reduction='sum'", ""),
        "no loss summed over the batch",
    ),
    "sum at a high rate": (
        "exploding_gradient",
        {},
        SUMS.replace("0.05", "5.0"),
        "the rate is high",
    ),
    "bound that is maximized": (
        "wrong_sign",
        ENDLESS,
        "elbo = log_likelihood - kl\nloss = elbo.mean()\n",
        "no minus before a call",
    ),
    "two divergences": (
        "wrong_sign",
        ENDLESS,
        "loss = loss_a - kl_one + loss_b - kl_two\n",
        "2 divergence with the wrong sign",
    ),
    "closure that clears": (
        "stale_gradient",
        EVALUATED,
        CLOSURE.replace("    loss = ", "    model.zero_grad()\n    loss = "),
        "the closure already calls zero_grad",
    ),
    "two terms with small weights": (
        "vanishing_gradient",
        SMALL,
        "loss = 1e-6 * mse_loss(a, b) + 1e-6 * bce_loss(c, d)\n",
        "2 tiny factor in a loss",
    ),
    "deep model": (
        "vanishing_gradient",
        {
            "message": "the gradient of the first layers is 1e-8 times the gradient of "
            "the last layers"
        },
        "loss = loss * 1e-9\n",
        "vanishes in the model",
    ),
    "attention with a mask": (
        "causal_leak",
        AHEAD,
        ATTENTION.format(", attn_mask=mask"),
        "no attention without a mask",
    ),
    "scores that are not divided": (
        "attention_logit_growth",
        {**MULTIPLIED, "message": "the scores of layer.1 are not divided by sqrt(64)"},
        SCORED.format("*"),
        "decide how to bring",
    ),
    "two settings of one rate": (
        "learning_rate_too_high",
        {**RATE, "location": None},
        "generator_lr = 0.5\ncritic_lr = 0.5\n",
        "2 setting of this learning rate",
    ),
    "tensor that is subtracted twice": (
        "loss_broadcast",
        SHAPED,
        "loss = ((value - returns) ** 2).mean()\nclipped = clamp(value - old, -1, 1)\n",
        "subtracts the same tensor",
    ),
    "optimizers without a name": (
        "optimizer_without_model",
        {"location": "train.py:4"},
        GAME.format("netG").replace("optimizerD", "first").replace("optimizerG", "second"),
        "no optimizer that is named",
    ),
    "two large deviations": (
        "poor_initialization",
        SCALED,
        "a.weight.data.normal_(0, 1)\nb.weight.data.normal_(0, 2)\n",
        "2 line that sets the scale",
    ),
    "uneven layers": (
        "poor_initialization",
        {"message": "the output of a has 200x the variance of the output of b"},
        "a.weight.data.normal_(0, 1)\n",
        "decide how to initialize",
    ),
    "two views": (
        "trained_target",
        TAUGHT,
        Q_LEARNING.replace("target", "other"),
        "no argument of the loss",
    ),
    "advantage": (
        "trained_target",
        {**TAUGHT, "message": "the advantage in the policy loss has a gradient"},
        Q_LEARNING,
        "decide whether this tensor",
    ),
    "two optimizers, and a model that is cleared": (
        "stale_gradient",
        {"location": "train.py:10"},
        TWO.replace("optimizer_G.zero_grad", "both.zero_grad"),
        "line 2 calls zero_grad already",
    ),
    "two optimizers, and no line of a step": (
        "stale_gradient",
        {"location": "train.py:3"},
        TWO,
        "no step in line 3",
    ),
    "evaluation mode of loaded weights": (
        "eval_mode_in_training",
        {"location": "train.py:2", "evidence": {"trained_before": False}},
        "model.load_state_dict(torch.load(file))\n"
        "for x in loader:\n    model.eval()\n    loss(x).backward()\n    model.eval()\n",
        "calls load_state_dict",
    ),
    "step at the start of the next pass": (
        "step_without_backward",
        {},
        "for x in loader:\n    opt.step()\n    opt.zero_grad()\n    f(x).backward()\n",
        "no single zero_grad",
    ),
    "prior of the last layer": (
        "dead_units",
        {"step": 0, "layers": ("1",)},
        "nn.init.constant_(self.head.bias, -4.6)\nnn.init.constant_(model[3].bias, -4.6)\n",
        "no bias far below 0",
    ),
    "units that die later": (
        "dead_units",
        {"step": 120, "layers": ("1",)},
        "nn.init.constant_(model[0].bias, -10.0)\n",
        "died during training",
    ),
    "pixels of a model from elsewhere": (
        "unnormalized_input",
        PIXELS,
        "model = mlp([64, 10])\n",
        "divide the data by 255",
    ),
}
