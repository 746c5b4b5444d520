"""`python -m edgesocket.testing.simulator`: run seeds, shrink the first that fails."""

from __future__ import annotations

import argparse
import sys
import time

from edgesocket.testing.simulator.running import Outcome, run_seed
from edgesocket.testing.simulator.shrinking import as_test, shrink

_TELL_EVERY_S = 10.0


def main() -> int:
    """Run seeds. 0: no invariant was broken; 1: one was, and its seed and a small script are printed."""
    parser = argparse.ArgumentParser(prog="python -m edgesocket.testing.simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds (1000)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--go-on", action="store_true", help="count failures instead of stopping at the first")
    parser.add_argument("--no-shrink", action="store_true", help="only name the seed that fails")
    arguments = parser.parse_args()
    started, told = time.process_time(), time.monotonic()
    failed: list[Outcome] = []
    steps = done = 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        outcome = run_seed(seed)
        steps += outcome.steps
        done += 1
        if outcome.violation is not None:
            failed.append(outcome)
            _say(f"seed {seed}: {outcome.violation}")
            if not arguments.go_on:
                break
        now = time.monotonic()
        if now - told > _TELL_EVERY_S:
            told = now
            _say(f"{done} seeds, {done / (time.process_time() - started):.0f} a second of the processor")
    busy_s = time.process_time() - started
    rate = done / max(busy_s, 0.001)
    _say(f"{done} seeds, {steps} steps, {len(failed)} failed; {busy_s:.0f} s of the processor, {rate:.0f} seeds/s")
    if failed and not arguments.no_shrink:
        _say("shrinking the first ...")
        _say(as_test(shrink(failed[0])))
    return 1 if failed else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
