"""What every part of the benchmarks shares: building, pinning, running servers and the generator, writing tables."""
