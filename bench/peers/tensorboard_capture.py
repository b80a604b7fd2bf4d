"""Writes histograms for TensorBoard at every step; run by `bench/capture.py` in its environment.

TensorBoard has no hooks: this is the loop that its users write.
"""

from bench.peers.base import Attached, main

CAN = {
    "default": "add_scalar of the loss at each step; it records nothing else by default",
    "all gradients and weights": "add_histogram of each at each step, and no statistics",
    "everything": "the same, and of the outputs of all modules without parts, by hooks around them",
    "raw gradients and weights": "add_tensor of each at each step",
}
CANNOT = {
    "idle": "attaches itself to nothing",
    "guard and ring": "does not judge a step before its update, and keeps no inputs",
}


def attach(model, _, setting, folder):
    """Call the writer before each update."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))
    step = 0
    add = writer.add_tensor if setting.startswith("raw") else writer.add_histogram

    def before_update(loss):
        nonlocal step
        writer.add_scalar("loss", loss.item(), step)
        if setting != "default":
            for name, parameter in model.named_parameters():
                add(f"weight/{name}", parameter.detach(), step)
                if parameter.grad is not None:
                    add(f"gradient/{name}", parameter.grad, step)
        step += 1

    if setting == "everything":
        hook_outputs(model, lambda name, value: add(f"output/{name}", value.detach(), step))
    return Attached(before_update=before_update, settle=writer.flush, close=writer.close)


def hook_outputs(model, add):
    """Pass on the outputs of modules without submodules, tensor by tensor."""

    def hook_of(name):
        def hook(_, __, output):
            values = output if isinstance(output, tuple) else (output,)
            for number, value in enumerate(values):
                if hasattr(value, "detach"):
                    add(f"{name}.{number}", value)

        return hook

    for name, module in model.named_modules():
        if not any(module.children()):
            module.register_forward_hook(hook_of(name))


if __name__ == "__main__":
    main(CAN, CANNOT, attach)
