"""Report page: a report as one HTML file that needs no network.

The data is JSON in a script element that is never run; `<`, `>`, `&` and the line separators of
Unicode are written as escapes, so that no name or line of source text can end the element. A policy
in the head allows only the script and the style of the page itself, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

from porism.viewer.column_packing import packed_report

FOLDER: Final = Path(__file__).with_name("page")
STYLES: Final = ("view.css",)
SCRIPTS: Final = ("elements.js", "timeline.js", "trace.js", "graph.js", "kernel.js", "view.js")
"""The parts of the program of the page, in order."""

_ESCAPES: Final = {
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def embedded_json(data: Any) -> str:
    """Return data as JSON that can stand in any element of HTML.

    >>> embedded_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_ESCAPES)


def page(data: dict[str, Any]) -> str:
    """Return the page of a report."""
    style, script = _joined(STYLES), _joined(SCRIPTS)
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; "
        f"script-src 'sha256-{_digest(script)}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "title": html.escape(str(data["title"])),
        "policy": html.escape(policy, quote=True),
        "style": style,
        "data": embedded_json(packed_report(data)),
        "script": script,
    }
    text = (FOLDER / "view.html").read_text(encoding="utf-8")
    pieces = text.split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:  # not `replace`: a part may contain the name of another
        name, _, rest = piece.partition("}}")
        out += [parts[name], rest]
    return "".join(out)


@cache
def _joined(names: tuple[str, ...]) -> str:
    return "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in names)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
