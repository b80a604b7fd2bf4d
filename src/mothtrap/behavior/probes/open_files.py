"""BEH406: others on the machine can change the model or its data."""

from __future__ import annotations

from collections.abc import Iterator

from mothtrap.behavior.probe import Probe, Suspicion
from mothtrap.behavior.subject import Subject
from mothtrap.core.errors import NotApplicable
from mothtrap.core.findings import Severity
from mothtrap.core.frozen import frozen


@frozen
class OpenFiles(Probe):
    """Every user of the machine can change the model file or the data.

    What it detects:
        The permissions of the files that the command names, and of the folders above them. Anyone
        who can write to a file's folder can replace the file.

    Why it matters:
        Anyone who can change the training data or the model controls its predictions. A backdoor or
        a poisoned row is hard to find later.

    Fires:
        When a file is writable by everyone.

    Stays quiet:
        For group permissions, access over a network, and access control lists.

    What to do:
        - Remove the permission: `chmod o-w FILE`, also for its folder.
        - Keep models and data where only the training job writes.

    References:
        Hall, Proposals for model vulnerability and security, 2019.
    """

    code = "BEH406"
    severity = Severity.WARNING
    title = "files that everyone can change"

    def look(self, subject: Subject) -> Iterator[Suspicion]:
        """Check the permissions of the files."""
        if not subject.options.files:
            raise NotApplicable("no files were named")
        for file in subject.options.files:
            if file.writers == "everyone":
                yield Suspicion(
                    message=f"every user of this machine can change the {file.role}: {file.path}",
                    features=(file.role,),
                    exact=True,
                    evidence={"path": file.path, "readers": file.readers},
                )
