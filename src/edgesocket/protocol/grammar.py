"""The literals and limits of the line protocol, each written once.

A request is one line: `__AUTH__:<token>`, `__BATCH__:<id>:<payload>` or `__COMMIT__:<id>`, ended by LF; one CR before
the LF belongs to the line end. Every other byte is payload. Each request line is answered by exactly one reply line.
"""

from __future__ import annotations

AUTH_PREFIX = b"__AUTH__:"
BATCH_PREFIX = b"__BATCH__:"
COMMIT_PREFIX = b"__COMMIT__:"

LF = 0x0A
CR = 0x0D

MAX_ID_DIGITS = 19
"""Digits of the largest batch id, leading zeros aside."""

MAX_AUTH_LINE_BYTES = 4 * 1024
"""A longer first line is never held in memory: AUTH_FAILED, close."""

DEFAULT_MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer request line is skipped to its LF and answered once with BAD_REQUEST."""

DEFAULT_MAX_RECORD_BYTES = 64 * 1024 * 1024
"""A packet that inflates beyond this is answered DECODE_FAILED."""
