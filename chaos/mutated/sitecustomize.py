"""Imported by every Python that has this directory in PYTHONPATH: puts a deliberate fault into the product.

CHAOS_MUTATION names one of tests/simulation/mutations.py. Only processes that chaos starts get here.
"""

import os

_name = os.environ.get("CHAOS_MUTATION")
if _name:
    from tests.simulation.mutations import MUTATIONS

    # Kept: what is in place goes when its context ends.
    _in_place = next(one for one in MUTATIONS if one.name == _name).in_place()
    _in_place.__enter__()
