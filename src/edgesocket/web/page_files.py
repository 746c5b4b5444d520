"""The dashboard's files, as they lie in the package: read once, served from memory, with an ETag."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from edgesocket.web.endpoint import Fail, failed

INDEX = "index.html"
MAX_FILES = 200

MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
"""Only files with these endings are served."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file: its bytes, content type and ETag."""

    content: bytes
    media: str
    etag: str


def read_page() -> dict[str, PageFile]:
    """The files of the page by their path in it."""
    files: dict[str, PageFile] = {}
    _read(resources.files("edgesocket.web") / "page", "", files)
    return files


def _read(directory: Traversable, above: str, files: dict[str, PageFile]) -> None:
    if not directory.is_dir():
        return
    for entry in directory.iterdir():
        if entry.is_dir():
            _read(entry, f"{above}{entry.name}/", files)
            continue
        media = next((media for ending, media in MEDIA.items() if entry.name.endswith(ending)), "")
        if media and len(files) < MAX_FILES:
            content = entry.read_bytes()
            files[above + entry.name] = PageFile(content, media, f'"{hashlib.sha256(content).hexdigest()[:20]}"')


class Page:
    """Answers for the page and its files."""

    def __init__(self) -> None:
        self._files = read_page()

    async def index(self, request: Request) -> Response:
        """The page."""
        return self._answer(request, INDEX)

    async def file(self, request: Request) -> Response:
        """One of its files."""
        return self._answer(request, str(request.path_params["path"]))

    def _answer(self, request: Request, path: str) -> Response:
        found = self._files.get(path)
        if found is None:
            return failed(Fail(404, "there is no such file"))
        # Always asked for again, so that a page never meets files of another version; 304 costs nothing.
        headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if found.etag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(found.content, headers={**headers, "Content-Type": found.media})
