"""The spool: records on the edge's own disk until they are confirmed.

`frames`, `marks`, `names`, `survey` and `letters` are pure: bytes in, bytes out. The rest performs.
"""
