"""Models that the benchmarks train."""
