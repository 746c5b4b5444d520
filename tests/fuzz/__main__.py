"""Runs the fuzzer on one target: `python -m tests.fuzz TARGET --seconds 600` (`make fuzz TARGET=... SECONDS=...`).

A finding is written to `tests/fuzz/corpus/<target>/`, where the tests will try it from then on. Needs atheris, which
has wheels for some Pythons only.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def main() -> int:
    """Fuzz until the time is over or something was found. Does not return: libFuzzer ends the process."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("target", help="one of tests/fuzz/targets.py")
    parser.add_argument("--seconds", type=int, default=60, help="how long (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="of the fuzzer's chance; 0: another one each time")
    args = parser.parse_args()
    try:
        import atheris  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError:
        print("this needs atheris: pip install atheris", file=sys.stderr)
        return 69
    with atheris.instrument_imports(include=["edgesocket"]):
        from tests.fuzz.seeds import seeds
        from tests.fuzz.targets import TARGETS
    if args.target not in TARGETS:
        parser.error(f"there are the targets {', '.join(TARGETS)}")
    target = TARGETS[args.target]

    def once(data: bytes) -> None:
        try:
            target.run(data)
        except Exception:
            found = CORPUS / args.target / hashlib.sha256(data).hexdigest()[:16]
            found.parent.mkdir(parents=True, exist_ok=True)
            found.write_bytes(data)
            print(f"FOUND {found}", file=sys.stderr)
            raise

    with tempfile.TemporaryDirectory(prefix="edgesocket-fuzz-") as directory:
        for number, data in enumerate(seeds()[args.target]):
            Path(directory, f"seed-{number}").write_bytes(data)
        flags = [f"-max_total_time={args.seconds}", f"-max_len={target.max_bytes}", f"-artifact_prefix={directory}/"]
        flags += ["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=2000", f"-seed={args.seed}"]
        known = [str(CORPUS / args.target)] if (CORPUS / args.target).is_dir() else []
        atheris.Setup([sys.argv[0], *flags, directory, *known], once)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
