"""Further short scripts, with a fault in the training loop or the outputs."""

from __future__ import annotations

from tests.repairs.sources import (
    ADAM,
    APART,
    AT_3,
    AT_THE_END,
    CHUNK,
    CLIPPED,
    CUT,
    DECORATED,
    FUNCTIONS,
    LATE,
    LOOP,
    MODULE,
    NEGATIVE,
    NET,
    NEVER,
    ONE_STEP,
    RATE,
    RECTIFIED,
    SIGMOID_AT_3,
    SLOW,
    UNAPPLIED,
    UNSHIFTED,
    UNSTEPPED,
    WITH_LOGITS,
)

NEVER_IN_TRAINING = """\
for epoch in range(9):
    model.eval()
    for x, y in loader:
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
    model.eval()
    test(model)
"""

OF_TRAINING = {
    "evaluation mode from the start": (
        "eval_mode_in_training",
        {"location": "train.py:2", "evidence": {"trained_before": False}},
        NEVER_IN_TRAINING,
        NEVER_IN_TRAINING.replace("eval", "train", 1),
    ),
    "training in another function": (
        "eval_mode_in_training",
        {"location": "train.py:7", "evidence": {"trained_before": True}},
        APART,
        APART.replace("    for x, y in loader:\n", "    model.train()\n    for x, y in loader:\n"),
    ),
    "evaluation of each batch": (
        "eval_mode_in_training",
        {"location": "train.py:8", "evidence": {"trained_before": True}},
        APART.replace("step()\n", "step()\n        test(model, loader)\n"),
        APART.replace("step()\n", "step()\n        test(model, loader)\n").replace(
            "        optimizer.zero", "        model.train()\n        optimizer.zero"
        ),
    ),
    "evaluation at the end": (
        "train_mode_in_evaluation",
        {"location": "train.py:6"},
        AT_THE_END,
        AT_THE_END.replace("with torch", "model.eval()\nwith torch"),
    ),
    "decorated evaluation": (
        "train_mode_in_evaluation",
        {"location": "train.py:9"},
        DECORATED,
        DECORATED.replace("    return", "    model.eval()\n    return"),
    ),
    "data": (
        "disconnected_parameter",
        {"evidence": {"cause": "upstream"}},
        CUT.replace("        h = h.detach()\n", "").replace("head(h)", "head(h.data)"),
        CUT.replace("        h = h.detach()\n", ""),
    ),
    "slow": (
        "learning_rate_too_low",
        SLOW,
        ADAM.replace("Adam", "SGD").format("1e-7"),
        ADAM.replace("Adam", "SGD").format("0.01"),
    ),
    "rate of a schedule": (
        "learning_rate_too_low",
        SLOW,
        ADAM.replace("Adam", "SGD").format("2e-7") + "plan = StepLR(opt, 1)\n",
        ADAM.replace("Adam", "SGD").format("0.01") + "plan = StepLR(opt, 1)\n",
    ),
    "rate of zero": ("learning_rate_zero", NEVER, ADAM.format("0.0"), ADAM.format("0.001")),
    "dropout": (
        "excessive_dropout",
        {"evidence": {"value": 0.95}},
        "body = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.95))\nshare = 0.95\n",
        "body = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))\nshare = 0.95\n",
    ),
    "dropout of an option": (
        "excessive_dropout",
        {"evidence": {"value": 0.9}},
        'parser.add_argument("--dropout", type=float, default=0.9)\n',
        'parser.add_argument("--dropout", type=float, default=0.5)\n',
    ),
    "loss kept": ("loss_not_returned", {}, MODULE, MODULE + "        return loss\n"),
    "scores behind a ReLU": (
        "missing_activation_range",
        RECTIFIED,
        NET.format("F.relu(self.out(x))"),
        NET.format("self.out(x)"),
    ),
    "scores behind a layer": (
        "missing_activation_range",
        RECTIFIED,
        NET.replace("        return", "        x = self.relu(x)\n        return").format("x"),
        NET.format("x"),
    ),
    "scores behind a list of layers": (
        "missing_activation_range",
        RECTIFIED,
        "model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())\n",
        "model = nn.Sequential(nn.Linear(4, 3))\n",
    ),
    "scores with a threshold": (
        "missing_activation_range",
        NEGATIVE,
        NET.format("self.out(x)") + "hit = model(x) > 0.5\n",
        NET.format("torch.sigmoid(self.out(x))") + "hit = model(x) > 0.5\n",
    ),
    "targets of a chunk": (
        "causal_leak",
        UNSHIFTED,
        CHUNK,
        CHUNK.replace("source[i:i+n].view", "source[i + 1:i+n + 1].view"),
    ),
    "targets of a row": (
        "causal_leak",
        UNSHIFTED,
        "x, y = rows[:, :-1], rows[:, :-1]\n",
        "x, y = rows[:, :-1], rows[:, 1:]\n",
    ),
    "targets of a row of a table": (
        "causal_leak",
        UNSHIFTED,
        "inp[row] = encoded(chunk[:-1])\ntarget[row] = encoded(chunk[:-1])\n",
        "inp[row] = encoded(chunk[:-1])\ntarget[row] = encoded(chunk[1:])\n",
    ),
    "clipped after the step": (
        "clipping_every_step",
        LATE,
        CLIPPED.format("1.0"),
        LOOP.replace("    opt", "    clip_grad_norm_(model.parameters(), 1.0)\n    opt"),
    ),
    "clipped to almost nothing": (
        "clipping_every_step",
        {"evidence": {"clip_limit": 1e-5}},
        CLIPPED.format("max_norm=1e-5"),
        CLIPPED.format("max_norm=1.0"),
    ),
    "cleared in no call": (
        "stale_gradient",
        {"location": "train.py:4"},
        ONE_STEP,
        ONE_STEP.replace("opt.step()\n", "opt.step()\n    opt.zero_grad()\n"),
    ),
    "scaled": (
        "stale_gradient",
        {"location": "train.py:4"},
        LOOP.replace("opt.step()  # apply", "scaler.step(opt)"),
        LOOP.replace("opt.step()  # apply", "scaler.step(opt)") + "    opt.zero_grad()\n",
    ),
    "train of one step": (
        "eval_mode_in_training",
        {"location": "train.py:6", "evidence": {"trained_before": True}},
        ONE_STEP,
        ONE_STEP.replace("    loss = ", "    model.train()\n    loss = "),
    ),
    "evaluation with a graph": (
        "train_mode_in_evaluation",
        {"location": "train.py:8"},
        FUNCTIONS.replace("    with torch.no_grad():\n    ", ""),
        FUNCTIONS.replace("    with torch.no_grad():\n    ", "    model.eval()\n"),
    ),
    "sigmoid with a threshold": (
        "sigmoid_before_bce_with_logits",
        {"message": SIGMOID_AT_3},
        WITH_LOGITS,
        WITH_LOGITS.replace("BCEWithLogitsLoss", "BCELoss"),
    ),
    "probabilities for nll_loss": (
        "softmax_before_cross_entropy",
        {"message": AT_3, "evidence": {"operation": "nll"}},
        NET.format("F.softmax(self.out(x), dim=1)"),
        NET.format("F.log_softmax(self.out(x), dim=1)"),
    ),
    "layer for nll_loss": (
        "softmax_before_cross_entropy",
        {"message": AT_3, "evidence": {"operation": "nll"}},
        NET.format("self.softmax(x)") + "layer = nn.Softmax(dim=1)\n",
        NET.format("self.softmax(x)") + "layer = nn.LogSoftmax(dim=1)\n",
    ),
    "softmax of a layer": (
        "softmax_before_cross_entropy",
        {"message": AT_3},
        NET.format("self.softmax(x)"),
        NET.format("x"),
    ),
    "never stepped": (
        "update_dropped",
        UNAPPLIED,
        UNSTEPPED,
        UNSTEPPED + "    opt.step()\n",
    ),
    "clipped and never stepped": (
        "update_dropped",
        UNAPPLIED,
        UNSTEPPED + "    clip_grad_norm_(model.parameters(), 1.0)\n    print(loss)\n",
        UNSTEPPED
        + "    clip_grad_norm_(model.parameters(), 1.0)\n    opt.step()\n    print(loss)\n",
    ),
    "data at an unknown line": (
        "disconnected_parameter",
        {"evidence": {"cause": "detached"}, "location": "train.py:1"},
        CUT.replace("        h = h.detach()\n", "").replace("head(h)", "head(h.data)"),
        CUT.replace("        h = h.detach()\n", ""),
    ),
    "rate beside a summed evaluation": (
        "learning_rate_too_high",
        RATE,
        ADAM.format("0.5") + 'total += F.nll_loss(model(a), b, reduction="sum")\n',
        ADAM.format("0.001") + 'total += F.nll_loss(model(a), b, reduction="sum")\n',
    ),
    "summed where it is called": (
        "learning_rate_too_high",
        {**RATE, "evidence": {"optimizer": "Adam", "learning_rate": 0.002}},
        ADAM.format("0.002") + 'loss = F.nll_loss(x, y, reduction="sum")\nloss.backward()\n',
        ADAM.format("0.002") + 'loss = F.nll_loss(x, y, reduction="mean")\nloss.backward()\n',
    ),
    "scores behind a ReLU and a softmax": (
        "missing_activation_range",
        RECTIFIED,
        NET.replace("        return", "        x = F.relu(self.out(x))\n        return").format(
            "F.log_softmax(x, dim=1)"
        ),
        NET.replace("        return", "        x = self.out(x)\n        return").format(
            "F.log_softmax(x, dim=1)"
        ),
    ),
    "minus without a bound": (
        "wrong_sign",
        {"message": "the loss fell from -2.3 to -2e+29 and has no lower bound"},
        "loss = -F.nll_loss(model(x), y)\n",
        "loss = F.nll_loss(model(x), y)\n",
    ),
    "step before backward": (
        "step_without_backward",
        {},
        "for x in loader:\n    net.zero_grad()\n    loss = f(x)\n    opt.step()\n"
        "    loss.backward()\n    log(loss)\n",
        "for x in loader:\n    net.zero_grad()\n    loss = f(x)\n    loss.backward()\n"
        "    opt.step()\n    log(loss)\n",
    ),
    "no backward": (
        "step_without_backward",
        {"evidence": {"absent": True}},
        LOOP.replace("    loss.backward()\n", ""),
        LOOP,
    ),
    "decay of an option": (
        "weight_decay_dominates",
        {"evidence": {"optimizer": "Adam"}, "location": "train.py:2"},
        'parser.add_argument("--l2", default=50.0)\n' + ADAM.format("1e-3, weight_decay=args.l2"),
        'parser.add_argument("--l2", default=0.0)\n' + ADAM.format("1e-3, weight_decay=args.l2"),
    ),
    "bias of one layer": (
        "dead_units",
        {"step": 0, "layers": ("1",)},
        "nn.init.constant_(model[0].bias, -10.0)  # low\n",
        "nn.init.constant_(model[0].bias, 0.0)  # low\n",
    ),
    "biases of all layers": (
        "dead_units",
        {"step": 0, "layers": ("relu",)},
        "for m in model.modules():\n    m.bias.data.fill_(-4)\n    m.weight.data.fill_(-4)\n",
        "for m in model.modules():\n    m.bias.data.fill_(0.0)\n    m.weight.data.fill_(-4)\n",
    ),
    "biases that apply fills": (
        "dead_units",
        {"step": 0, "layers": ("relu",)},
        "def start(m):\n    nn.init.constant_(m.bias, -4.0)\nmodel.apply(start)\n",
        "def start(m):\n    nn.init.constant_(m.bias, 0.0)\nmodel.apply(start)\n",
    ),
}
