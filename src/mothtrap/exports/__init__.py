"""A run in the formats of other tools, one per file.

A format is a module with a function `write(run, target, choice) -> Written` that makes
`target`, a file or a folder as its first line says, out of what `choice` leaves of `run`.
One that can grow has `follow(run, target, choice, pause) -> Written`, too.
"""

from mothtrap.exports._choice import Choice as Choice
from mothtrap.exports._choice import Written as Written
from mothtrap.exports._writing import export_run as export_run
from mothtrap.exports._writing import follow_run as follow_run
from mothtrap.exports._writing import formats as formats

__all__ = ["Choice", "Written", "export_run", "follow_run", "formats"]
