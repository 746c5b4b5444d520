"""`make security`: bandit over the sources, and pip-audit over what is installed.

A finding that was looked at stands in the source as `# noqa: S608` with its reason: ruff and bandit number their rules
alike, so one remark is good for both (where ruff finds nothing, bandit's own `# nosec` does it). Any other finding
fails. pip-audit needs an index that knows of vulnerabilities;
where there is none it is said that nothing was audited, and why.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("src/edgesocket", "hatch_build.py", "bench")
BIN = Path(sys.executable).parent

# Rules that ruff leaves out as well (pyproject.toml says why), or that say nothing:
LEFT_OUT = {
    "B101": "asserts state invariants; none checks input",
    "B104": "the reference binds all interfaces; `allow` and networks say who may come",
    "B404": "importing subprocess is no finding; each call is looked at (B603)",
    "B105": "names of variables and events that hold the word token; ruff's S105 finds those without a remark",
    "B107": "the same of arguments; ruff's S107",
}
LEFT_OUT_BELOW = {
    "src/edgesocket/testing/": {"B311": "the simulator has to be repeatable"},
    "bench/": dict.fromkeys(
        ("B108", "B110", "B112", "B310", "B311", "B603", "B607", "B608"), "not part of what is installed"
    ),
}

AUDIT_TIMEOUT_S = 120
_REMARK = re.compile(r"#\s*noqa:\s*([A-Z0-9, ]+)")


def main() -> int:
    """Run both; returns 1 where something has to be mended."""
    return max(run_bandit(), run_audit())


def run_bandit() -> int:
    """Print the findings of bandit that nobody has remarked on."""
    command = [BIN / "bandit", "--quiet", "--format", "json", "--recursive", *SOURCES]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        print(f"bandit failed:\n{ran.stderr}", file=sys.stderr)
        return 1
    left = [finding for finding in report["results"] if not is_known(finding)]
    for finding in left:
        place = f"{finding['filename']}:{finding['line_number']}"
        print(f"{place}: {finding['test_id']} {finding['issue_severity'].lower()}: {finding['issue_text']}")
    for error in report["errors"]:
        print(f"{error['filename']}: {error['reason']}")
    found = len(report["results"])
    print(f"bandit: {len(left)} findings to mend ({found - len(left)} were looked at, with reasons in the source)")
    return 1 if left or report["errors"] else 0


def is_known(finding: dict[str, Any]) -> bool:
    """Whether a finding was looked at: left out above, or remarked on where it is."""
    rule, name = finding["test_id"], finding["filename"].removeprefix("./")
    if rule in LEFT_OUT or any(name.startswith(top) and rule in rules for top, rules in LEFT_OUT_BELOW.items()):
        return True
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    numbers = {finding["line_number"], *finding["line_range"]}
    remarks = " ".join(found[1] for number in numbers for found in _REMARK.finditer(lines[number - 1]))
    return f"S{rule[1:]}" in re.split(r"[, ]+", remarks)


def run_audit() -> int:
    """Print known vulnerabilities of what is installed."""
    command = [BIN / "pip-audit", "--format", "json", "--progress-spinner", "off", "--local", "--timeout", "10"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=AUDIT_TIMEOUT_S)
        packages = json.loads(ran.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        print(f"pip-audit: skipped, the index did not answer within {AUDIT_TIMEOUT_S} s")
        return 0
    except (ValueError, KeyError):
        last = (ran.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"pip-audit: skipped, it could not ask the index: {last[:200]}")
        return 0
    audited = [one for one in packages if "skip_reason" not in one]
    ill = [one for one in audited if one["vulns"]]
    for one in ill:
        for vulnerability in one["vulns"]:
            fixed = ", ".join(vulnerability["fix_versions"]) or "nothing yet"
            print(f"{one['name']} {one['version']}: {vulnerability['id']}, fixed in {fixed}")
    if not audited:
        print(f"pip-audit: skipped, this index knows no vulnerabilities of any of {len(packages)} packages")
    else:
        print(f"pip-audit: {len(ill)} of {len(audited)} packages to update ({len(packages) - len(audited)} unknown)")
    return 1 if ill else 0


if __name__ == "__main__":
    sys.exit(main())
