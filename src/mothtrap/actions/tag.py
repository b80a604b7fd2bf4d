"""Tag the run, so that `mothtrap ls --where TAG` lists it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mothtrap.core.actions import Action, Job, settings_of
from mothtrap.core.errors import ActionError, ConfigError, StoreError
from mothtrap.core.events import Event
from mothtrap.core.labels import MAX_TAG
from mothtrap.store.labels import put_label, read_labels


@dataclass(frozen=True, slots=True)
class Tag:
    """Adds a tag to the run, also after the job has ended."""

    target: str
    label: str = "tag"
    is_message: bool = False

    def run(self, event: Event, job: Job, delivery: str) -> str:
        """Add the tag, unless the run has it."""
        del event, delivery
        if self.target in read_labels(job.path).tags:
            return ""
        try:
            put_label(job.path, "tag", self.target)
        except StoreError as err:
            raise ActionError(f"the store of the run cannot be written: {err}") from None
        except OSError as err:
            raise ActionError(f"the run cannot be tagged: {err.strerror}") from None
        return f"tagged the run {self.target!r}"


def make(settings: object, where: str) -> Sequence[Action]:
    """Return an action for each tag.

    Args:
        settings: a tag, or a list of tags.
        where: source of the settings.
    """
    given = settings_of(settings, "tag", "tag", where).get("tag")
    tags = given if isinstance(given, list | tuple) else (given,)
    for tag in tags:
        if not isinstance(tag, str) or not 0 < len(tag.strip()) <= MAX_TAG:
            raise ConfigError(
                f'{where}: tag must be a word such as "diverged", or a list of them; each may have '
                f"{MAX_TAG} characters"
            )
    return tuple(Tag(tag) for tag in dict.fromkeys(tag.strip() for tag in tags))
