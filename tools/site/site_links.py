"""Links of Markdown pages: which lead to no page, no file, or no heading."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

_FENCE: Final = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
_CODE: Final = re.compile(r"`[^`\n]*`")
_LINK: Final = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_SOURCE: Final = re.compile(r'<(?:iframe|img)[^>]* src="([^"]+)"')
_HEADING: Final = re.compile(r"^#+ +(.*)$", re.M)
_ID: Final = re.compile(r"\{ #(\S+) \}")


def dead_links(folder: Path) -> list[str]:
    """Return `page: link` for each link in a folder of pages that leads nowhere in it."""
    dead = []
    for page in sorted(folder.rglob("*.md")):
        text = _CODE.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
        for target in [*_LINK.findall(text), *_SOURCE.findall(text)]:
            if not _leads_somewhere(page, target):
                dead.append(f"{page.relative_to(folder)}: {target}")
    return dead


def _leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    if ":" in path:
        return True  # another site, which is not asked
    file = (page.parent / path).resolve() if path else page
    if not file.is_file():
        return False
    return not anchor or file.suffix != ".md" or anchor in anchors(file)


@cache
def anchors(file: Path) -> frozenset[str]:
    """Return the names of the headings of a page, as MkDocs makes them."""
    text = _FENCE.sub("", file.read_text(encoding="utf-8"))
    found = set()
    for heading in _HEADING.findall(text):
        named = _ID.search(heading)
        found.add(named[1] if named else slug(heading))
    return frozenset(found)


def slug(heading: str) -> str:
    """Return the anchor that MkDocs makes of a heading.

    >>> slug("What `porism view` shows, and why")
    'what-porism-view-shows-and-why'
    """
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
