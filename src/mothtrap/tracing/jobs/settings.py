"""Reports of settings that have no effect on the steps of one adapter."""

from __future__ import annotations

from collections.abc import Callable

from mothtrap.capture.grouper import Grouper
from mothtrap.core import options
from mothtrap.core.config import Config
from mothtrap.core.fact import Fact
from mothtrap.core.facts.captures import SettingIgnored
from mothtrap.core.options import Option


class Settings:
    """Compares the user's options with the options that an adapter supports.

    Args:
        config: what the user has set.
        framework: framework of the adapter.
        grouper: groups events into steps; has the step in progress.
        say: prints one line for the user.
        observe: records a fact of the step in progress.

    Attributes:
        honored: options that the adapter supports; set when it is attached.
    """

    def __init__(
        self,
        config: Config,
        framework: str,
        grouper: Grouper,
        say: Callable[[str], None],
        observe: Callable[[Fact], None],
    ) -> None:
        self._config, self._framework = config, framework
        self._grouper, self._say, self._observe = grouper, say, observe
        self.honored = options.EVERY
        self._reported: set[tuple[Option, str]] = set()

    def check(self, step: int) -> None:
        """Report, at a step, the requested options that are not supported."""
        for option in options.asked(self._config):
            if option not in self.honored:
                self._report(option, options.NO_EFFECT[option].format(self._framework), step)

    def no_effect(self, option: Option, why: str) -> None:
        """Report, once, that a supported option has no effect on some steps."""
        if option in self.honored and (option, why) not in self._reported:
            self._report(option, why, self._grouper.step)

    def no_guard(self, why: str) -> None:
        """Report, once, that some steps cannot be skipped, regardless of their fault."""
        for option in options.GUARDING:
            self.no_effect(option, why)

    def _report(self, option: Option, why: str, step: int) -> None:
        setting = options.asked(self._config).get(option)
        if setting is not None and (option, why) not in self._reported:
            self._say(f"mothtrap: {setting} has no effect: {why}")
            self._observe(SettingIgnored(step=step, setting=setting, reason=why))
        self._reported.add((option, why))
