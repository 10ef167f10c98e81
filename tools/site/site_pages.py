"""The pages of the site: README and docs/ as they are, the reference and examples generated.

Links between README, CONTRIBUTING and docs/ are rewritten, since all are in one folder here.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

from tools.site import benchmark_page, playground_page, reference_pages, start_page

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "build" / "site"
FIGURES: Final = ROOT / "benchmarks" / "cpu_figures.json"
"""Figures of `./dev bench cpu --json` that are kept with the sources."""

NAVIGATION: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("Guides", ("tensors.md", "training.md", "gradients.md", "jit.md", "onnx.md", "torch.md")),
    ("See and tune", ("view.md", "looking.md", "schedule.md", "actions.md", "tuning.md")),
    ("Right results", ("verify.md", "rules.md", "semantics.md", "simplifier.md", "playground.md",
                       "derivatives.md", "fast_math.md", "accuracy.md")),
    ("Speed", ("performance.md", "machine.md", "measurements.md", "benchmarks.md")),
    ("Inside", ("architecture.md", "ops.md", "settings.md", "glossary.md", "dependencies.md",
                "development.md", "contributing.md")),
)  # fmt: skip
"""Sections and their pages; pages of docs/ that are in none are added to the last one."""


def write(folder: Path, figures: Path = FIGURES) -> None:
    """Write the pages and the configuration of MkDocs into a folder, which is emptied first.

    `figures` is a file of `./dev bench cpu --json`, of which the page of benchmarks is made.
    """
    pages = folder / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    start_page.write(ROOT / "README.md", pages)
    (pages / "assets").mkdir()
    for name in ("site.css", "favicon.svg", "file_workers.js"):
        shutil.copy(Path(__file__).with_name(name), pages / "assets" / name)
    (pages / "contributing.md").write_text((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    (pages / "changelog.md").write_text((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    reference = reference_pages.write(pages / "reference")
    (pages / "playground.md").write_text(playground_page.page(), encoding="utf-8")
    benchmark_page.write(figures, pages)
    _write_decisions(pages / "decisions")
    for page in pages.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(_with_links(text, page, pages), encoding="utf-8")
    (folder / "mkdocs.yml").write_text(json.dumps(configuration(pages, reference), indent=1))


def _write_decisions(folder: Path) -> None:
    """Write a list of the decisions."""
    lines = [f"- [{_title(page)}]({page.name})" for page in sorted(folder.glob("0*.md"))]
    (folder / "index.md").write_text("# Decisions\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


_LINK: Final = re.compile(r"(?<!!)\[([^\]\n]*)\]\(([^)\s]+)\)")
_MOVED: Final = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md",
                 "CHANGELOG.md": "changelog.md"}  # fmt: skip


def _with_links(text: str, page: Path, pages: Path) -> str:
    """Return a page with its links as they are in the folder of pages."""

    def link(match: re.Match[str]) -> str:
        label, target = match[1], match[2]
        path, mark, anchor = target.partition("#")
        if not path or ":" in path:
            return match[0]
        name = Path(path).name
        if name in _MOVED and not (page.parent / path).is_file():
            path = "../" * len(page.parent.relative_to(pages).parts) + _MOVED[name]
        elif path.startswith("docs/"):
            path = path.removeprefix("docs/")
        if (page.parent / path).is_dir():
            path = path.rstrip("/") + "/index.md"
        if label.startswith("docs/") or label.endswith(".md"):  # a path says little here
            label = _title(page.parent / path) or label
        return f"[{label}]({path}{mark}{anchor})"

    return _LINK.sub(link, text)


def _title(page: Path) -> str | None:
    """Return the first heading of a page of Markdown."""
    if page.suffix != ".md" or not page.is_file():
        return None
    found = re.search(r"^# (.*)$", page.read_text(encoding="utf-8"), re.M)
    return found[1] if found else None


def configuration(pages: Path, reference: list[str]) -> dict[str, Any]:
    """Return the configuration of MkDocs; YAML reads JSON."""
    sections = [
        {title: [name for name in names if (pages / name).is_file()]} for title, names in NAVIGATION
    ]
    listed = {name for _, names in NAVIGATION for name in names} | {"index.md", "changelog.md"}
    rest = sorted(page.name for page in pages.glob("*.md") if page.name not in listed)
    sections[-1][NAVIGATION[-1][0]] += rest
    numbered = sorted(page.name for page in (pages / "decisions").glob("0*.md"))
    lessons = sorted(page.name for page in (pages / "tutorial").glob("*.md"))
    first = ["index.md"] if "index.md" in lessons else []
    return {
        "site_name": "Porism",
        "site_description": "A tensor compiler whose rewrite rules are data, and proved",
        "docs_dir": str(pages),
        "site_dir": str(pages.parent / "html"),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "favicon": "assets/favicon.svg",
            "logo": "assets/favicon.svg",
            "features": ["navigation.tabs", "navigation.top", "navigation.footer", "toc.follow",
                         "search.highlight", "search.suggest", "content.code.copy",
                         "navigation.indexes"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default",
                 "toggle": {"icon": "material/brightness-7", "name": "dark"}},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate",
                 "toggle": {"icon": "material/brightness-4", "name": "light"}},
            ],
        },
        "extra_css": ["assets/site.css"],
        "extra": {"generator": False},
        "plugins": ["search", "offline"],  # the search works in files, too, without a server
        "markdown_extensions": ["attr_list", "tables", "toc", "pymdownx.highlight",
                                "pymdownx.superfences"],
        "validation": {"links": {"not_found": "warn", "anchors": "warn"}},
        "nav": [
            {"Start": "index.md"},
            {"Tutorial": [f"tutorial/{name}" for name in
                          [*first, *(n for n in lessons if n != "index.md")]]},
            *sections,
            {"Reference": [f"reference/{name}" for name in reference]},
            {"Decisions": ["decisions/index.md", *(f"decisions/{name}" for name in numbered)]},
            {"Changes": "changelog.md"},
        ],
    }  # fmt: skip


# -- without a network -----------------------------------------------------------------------------

_WORKERS: Final = re.compile(r'https://[^"]*/iframe-worker/shim')
"""What the theme loads so that the search works in files; ours is in the site itself."""
_LOADED: Final = re.compile(
    r'<(?:script|img|iframe|link rel="stylesheet")[^>]*(?:src|href)="(\w+:[^"]*)"'
)


def keep_local(html: Path) -> list[str]:
    """Make the pages of a built site load only its own files; return what they load of others."""
    outside = []
    for page in sorted(html.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        up = "../" * len(page.parent.relative_to(html).parts)
        text, count = _WORKERS.subn(f"{up}assets/file_workers.js", text)
        if count:
            page.write_text(text, encoding="utf-8")
        outside += [f"{page.relative_to(html)}: {url}" for url in _LOADED.findall(text)]
    return outside
