"""Reduction of a tensor to a few numbers; pure and stateless.

There is one module per array library (`numpy`, `torch`), which must be imported separately. Names
exported here need only NumPy.
"""

from mothtrap.statistics.summary import EMPTY as EMPTY
from mothtrap.statistics.summary import FIELDS as FIELDS
from mothtrap.statistics.summary import STATISTICS as STATISTICS
from mothtrap.statistics.summary import WIDTH as WIDTH
from mothtrap.statistics.summary import columns_for as columns_for
from mothtrap.statistics.summary import derive as derive
from mothtrap.statistics.summary import merge as merge

__all__ = ["EMPTY", "FIELDS", "STATISTICS", "WIDTH", "columns_for", "derive", "merge"]
