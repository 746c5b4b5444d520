"""The PACKET mode: a JSON envelope around a payload that may be compressed and encrypted. Pure, no numpy."""
