"""Distribution of a tensor's values over powers of two.

Shape suffixes: B = bins, S = places in ascending order of the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mothtrap.core.display import grid, heading, pairs
from mothtrap.core.errors import UnknownNameError, nearest
from mothtrap.statistics.dtypes import NAMES, dtype_of
from mothtrap.statistics.exponents import BINS, LOWEST_POWER, Counts
from mothtrap.statistics.summary import derive

_BAR_CHARS = 40
"""Length of the longest printed bar; chosen by hand: a line has fewer than 80 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Shares of a tensor's nonzero finite values that a smaller dtype cannot represent well.

    Attributes:
        vanishing: share that becomes 0, from 0 to 1.
        subnormal: share that becomes subnormal and loses precision, from 0 to 1.
        overflowing: share that exceeds the largest number, from 0 to 1.
    """

    vanishing: float
    subnormal: float
    overflowing: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exponents:
    """Histogram of a tensor's finite values at a step, by sign and power of two.

    `print` and notebooks draw the histogram. The real and imaginary part of a complex number
    count as two values.

    Attributes:
        of: the tensor as `kind:name`.
        step: step of the job.
        counts_2B: exact counts, int64, shape (2, 64): row 0 negative values, row 1 positive values.
            Bin `i` counts magnitudes from 2^(i - 40) to below 2^(i - 39); the first bin also counts
            all smaller magnitudes, the last bin all larger magnitudes. Zeros, NaN and infinities
            are in no bin.
        zero, nan, inf: number of zeros, NaN, and infinities; None if not captured.
    """

    of: str
    step: int
    counts_2B: Counts
    zero: int | None
    nan: int | None
    inf: int | None

    @property
    def counts(self) -> Counts:
        """Number of values per power of two, both signs together, int64, shape (64,)."""
        both: Counts = self.counts_2B.sum(axis=0)
        return both

    @property
    def powers(self) -> range:
        """Range from the smallest to the largest power of two that occurs; may be empty."""
        (held,) = np.nonzero(self.counts)
        if not len(held):
            return range(0)
        return range(LOWEST_POWER + int(held[0]), LOWEST_POWER + int(held[-1]) + 1)

    @property
    def magnitudes(self) -> Exponents:
        """Histogram of the absolute values."""
        counts_2B = np.stack([np.zeros_like(self.counts), self.counts])
        return Exponents(
            of=self.of,
            step=self.step,
            counts_2B=counts_2B,
            zero=self.zero,
            nan=self.nan,
            inf=self.inf,
        )

    def quantiles(self, shares: Sequence[float]) -> npt.NDArray[np.float64]:
        """Estimate quantiles of the finite values, including zeros if their count was captured.

        Args:
            shares: quantile levels from 0 to 1, e.g. `(0.01, 0.5, 0.99)`.

        Returns:
            Quantiles, float64, shape (len(shares),). Sign and power of two are exact, so the error
            is below a factor of two, except in the first and last bin, which are open. Zero
            quantiles are exact. Values inside a bin are assumed to be spread evenly on a
            logarithmic scale. NaN if there is no finite value.

        Raises:
            ValueError: a share is outside 0 to 1.
        """
        share_S = np.asarray(shares, np.float64)
        if not ((share_S >= 0) & (share_S <= 1)).all():
            raise ValueError(f"shares must be from 0 to 1, not {list(shares)}")
        count_S = np.concatenate([self.counts_2B[0][::-1], [self.zero or 0], self.counts_2B[1]])
        end_S = np.cumsum(count_S)
        if not end_S[-1]:
            return np.full(len(share_S), np.nan)
        rank = np.floor(share_S * (end_S[-1] - 1)).astype(np.int64)
        place = np.searchsorted(end_S, rank, side="right")
        power = np.abs(place - BINS) - 1 + LOWEST_POWER
        inside = (rank - (end_S - count_S)[place] + 0.5) / count_S[place]
        inside = np.where(place < BINS, 1 - inside, inside)
        found: npt.NDArray[np.float64] = np.sign(place - BINS) * 2.0 ** (power + inside)
        return found

    def fit(self, dtype: str) -> Fit:
        """Estimate the share of values that would underflow or overflow in another dtype.

        Args:
            dtype: e.g. `float16`, `float8_e4m3fn`, `float8_e5m2`. For types whose range exceeds
                the bins, such as bfloat16, all shares are 0.

        Returns:
            Shares of the nonzero finite values, counted in whole bins: values in the bin of the
            largest number count as representable.

        Raises:
            UnknownNameError: the floating-point type does not exist; the message suggests one.
        """
        if dtype not in NAMES or "float" not in dtype:
            floats = [name for name in NAMES if "float" in name]
            raise UnknownNameError(
                f"{dtype!r} is not a floating-point type{nearest(dtype, floats)}"
            )
        limits = ml_dtypes.finfo(dtype_of(dtype))  # type: ignore[no-untyped-call]
        power_B = np.arange(LOWEST_POWER, LOWEST_POWER + BINS)
        # Values above half of the smallest number are rounded up to it.
        least = _power(limits.smallest_subnormal) - 1
        vanishing_B = power_B < least
        subnormal_B = (power_B < _power(limits.smallest_normal)) & ~vanishing_B
        overflowing_B = power_B > _power(limits.max)
        whole = max(1, int(self.counts.sum()))
        shares = [
            float(self.counts[chosen_B].sum()) / whole
            for chosen_B in (vanishing_B, subnormal_B, overflowing_B)
        ]
        return Fit(vanishing=shares[0], subnormal=shares[1], overflowing=shares[2])

    @classmethod
    def of_row(
        cls, of: str, step: int, counts_2B: Counts, row_1F: npt.NDArray[np.float64] | None
    ) -> Exponents:
        """Create a histogram from counts and the statistics of the same values.

        Args:
            of: the tensor as `kind:name`.
            step: step of the job.
            counts_2B: counts per sign and bin, int64, shape (2, 64).
            row_1F: statistics, float64, shape (1, F); None if not captured.
        """
        zero, nan, inf = (
            None if row_1F is None or np.isnan(found := derive(row_1F, name)[0]) else int(found)
            for name in ("zero", "nan", "inf")
        )
        return cls(of=of, step=step, counts_2B=counts_2B, zero=zero, nan=nan, inf=inf)

    def __repr__(self) -> str:
        between = f"2^{self.powers[0]} to 2^{self.powers[-1] + 1}" if self.powers else "none"
        return f"<Exponents of {self.of} at step {self.step}: {between}, {self._others()}>"

    def __str__(self) -> str:
        lines = [f"{self.of} at step {self.step}, {self._others()}"]
        lines += [
            f"{power:>7} {negative:>12} {positive:>12}  {bar}"
            for power, negative, positive, bar in self._rows()
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        others = {"zero": self.zero, "NaN": self.nan, "infinite": self.inf}
        known = {name: count for name, count in others.items() if count is not None}
        columns = ("magnitude from", "negative", "positive", "")
        return (
            heading(f"{self.of} at step {self.step}") + pairs(known) + grid(columns, self._rows())
        )

    def _rows(self) -> list[tuple[str, int, int, str]]:
        """Yield power, negative and positive values, and a bar, largest power first."""
        most = int(self.counts.max())
        rows = []
        for power in reversed(self.powers):
            negative, positive = self.counts_2B[:, power - LOWEST_POWER].tolist()
            bar = "█" * -(-_BAR_CHARS * (negative + positive) // most)
            rows.append((f"2^{power}", negative, positive, bar))
        return rows

    def _others(self) -> str:
        told = {"zeros": self.zero, "NaN": self.nan, "infinities": self.inf}
        return ", ".join(f"{'?' if n is None else n} {name}" for name, n in told.items())


def total(parts: Sequence[Exponents]) -> Exponents:
    """Add up the counts of one or more parts of a tensor; exact."""

    def added(counts: Sequence[int | None]) -> int | None:
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    return Exponents(
        of=parts[0].of,
        step=parts[0].step,
        counts_2B=np.sum([part.counts_2B for part in parts], axis=0),
        zero=added([part.zero for part in parts]),
        nan=added([part.nan for part in parts]),
        inf=added([part.inf for part in parts]),
    )


def _power(number: np.generic) -> int:
    return int(np.frexp(np.float64(number))[1]) - 1
