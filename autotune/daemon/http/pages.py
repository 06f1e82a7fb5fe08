"""The files of the web page, which lie in ``static/`` beside this module."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

_HTML, _CSS, _JS, _SVG = "text/html; charset=utf-8", "text/css; charset=utf-8", "text/javascript", "image/svg+xml"


@dataclass(frozen=True, slots=True)
class StaticPage:
    """One file that is served as it is.

    Attributes:
        path: Where it is asked for.
        name: Its name in the folder.
        media_type: What it is.
    """

    path: str
    name: str
    media_type: str

    def read(self) -> bytes:
        """Its bytes."""
        return (files("autotune.daemon.http") / "static" / self.name).read_bytes()


_SCRIPTS = ("app", "cards", "charts", "dom", "format", "history", "promises", "scales", "tables", "trend")

PAGES = (
    StaticPage("/", "index.html", _HTML),
    StaticPage("/static/page.css", "page.css", _CSS),
    StaticPage("/static/icon.svg", "icon.svg", _SVG),
    *(StaticPage(f"/static/{name}.js", f"{name}.js", _JS) for name in _SCRIPTS),
)
