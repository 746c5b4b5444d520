"""Real processes under real faults: `python -m chaos --list` says which, docs/chaos.md what came out.

`python -m chaos.soak` is the same for an hour, with an eye on memory and descriptors.
"""
