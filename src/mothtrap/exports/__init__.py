"""Exports of runs to the formats of other tools, one module per format.

A format is a module with a function `write(run, target, choice) -> Written`. It writes the part
of `run` that `choice` selects to `target`, a file or a folder as the module's first line says.
A format that can be extended during a run also has `follow(run, target, choice, pause)`.
"""

from mothtrap.exports._choice import Choice as Choice
from mothtrap.exports._choice import Written as Written
from mothtrap.exports._writing import export_run as export_run
from mothtrap.exports._writing import follow_run as follow_run
from mothtrap.exports._writing import formats as formats

__all__ = ["Choice", "Written", "export_run", "follow_run", "formats"]
