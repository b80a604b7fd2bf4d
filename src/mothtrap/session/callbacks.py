"""Callbacks of trainers that watch one training, without `mothtrap run`.

They are functions, since a class of a trainer's callbacks cannot be made without the trainer.
"""

from __future__ import annotations

from typing import Any


def LightningCallback(name: str | None = None, **settings: Any) -> Any:  # noqa: N802
    """Return a callback of Lightning that watches what a Trainer fits, from first to last step.

    `Trainer(callbacks=[mothtrap.LightningCallback()])` is the whole change of a script. In one
    that `mothtrap run` started, all is watched already, and it does nothing more.

    Args:
        name: of the run; default: script and time.
        **settings: as in the configuration file, e.g. `capture="everything"`.

    Raises:
        ModuleNotFoundError: Lightning is not installed.
    """
    from mothtrap.session.lightning_callback import WatchingCallback

    return WatchingCallback(name, **settings)


def TrainerCallback(name: str | None = None, **settings: Any) -> Any:  # noqa: N802
    """Return a callback of Hugging Face's Trainer that watches a training, from begin to end.

    `Trainer(..., callbacks=[mothtrap.TrainerCallback()])` is the whole change of a script. In one
    that `mothtrap run` started, all is watched already, and it does nothing more.

    Args:
        name: of the run; default: script and time.
        **settings: as in the configuration file, e.g. `capture="everything"`.

    Raises:
        ModuleNotFoundError: the library is not installed.
    """
    from mothtrap.session.transformers_callback import WatchingCallback

    return WatchingCallback(name, **settings)
