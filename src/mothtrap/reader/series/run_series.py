"""Series of a run: the series of `core`, with a conversion to pandas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mothtrap.core.errors import MissingExtraError
from mothtrap.core.window import Series

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RunSeries(Series):
    """One scalar, or one statistic of a tensor, over the steps of a run."""

    def to_pandas(self) -> pd.Series[float]:
        """Return the values indexed by step; a step with several values occurs several times.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as err:
            raise MissingExtraError("Series.to_pandas", "pandas", "analysis") from err
        name = f"{self.name}:{self.of}" if self.of else self.name
        return pd.Series(self.values_S, index=pd.Index(self.steps_S, name="step"), name=name)
