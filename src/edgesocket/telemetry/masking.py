"""Takes secrets out of text before it becomes a log line.

No component puts a secret into a message. This is the second line of defence, for what a library or a peer says: an
error of a database driver may hold the whole connection string.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MASKED = "***"

SHORTEST_SECRET = 6
"""A secret of fewer characters is not looked for: it would be found in every other word."""

_USER_INFO = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+@")
_ASSIGNED = re.compile(
    r"(?i)\b((?:[\w.-]*(?:password|passwd|secret|token|access_key))\s*=\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&]+)"
)


class Mask:
    """Called with a text, returns it without secrets.

    Args:
        secrets: the values to look for, as they would stand in a text.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({text for text in secrets if len(text) >= SHORTEST_SECRET}, key=len, reverse=True)
        self._known = re.compile("|".join(re.escape(text) for text in known)) if known else None

    def __call__(self, text: str) -> str:
        """The text with every secret, and whatever looks like a password, replaced by `***`."""
        if self._known is not None:
            text = self._known.sub(MASKED, text)
        if "=" in text:
            text = _ASSIGNED.sub(rf"\g<1>{MASKED}", text)
        return _USER_INFO.sub(rf"\g<1>:{MASKED}@", text) if "://" in text else text

    def __repr__(self) -> str:
        return "Mask(...)"
