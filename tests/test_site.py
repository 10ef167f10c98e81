"""The documentation site: lessons run, no link is dead, every function is in the reference."""

from __future__ import annotations

import doctest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.cpu_results import Results
from porism.tensor import namespace
from tools.site import benchmark_page, reference_pages, site_links, site_pages

ROOT = Path(__file__).resolve().parents[1]
LESSONS = sorted((ROOT / "docs" / "tutorial").glob("0*.md"))


@pytest.mark.parametrize("page", [*LESSONS, ROOT / "docs" / "view.md"], ids=lambda page: page.stem)
def test_lessons_run(page: Path) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert result.attempted > 3
    assert result.failed == 0


def test_every_lesson_is_listed_and_leads_to_the_next() -> None:
    index = (ROOT / "docs" / "tutorial" / "index.md").read_text(encoding="utf-8")
    assert [int(page.name[:2]) for page in LESSONS] == list(range(1, len(LESSONS) + 1))
    for page, following in zip(LESSONS, [*LESSONS[1:], None], strict=True):
        assert f"]({page.name})" in index
        if following is not None:
            assert f"]({following.name})" in page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site_pages.write(folder)
    return folder / "pages"


def test_no_link_is_dead(pages: Path) -> None:
    assert len(list(pages.rglob("*.md"))) > 50
    assert site_links.dead_links(pages) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A heading\n")
    (tmp_path / "page.md").write_text(
        "[a](there.md) [b](missing.md) [c](there.md#a-heading) [d](there.md#none) `[e](no.md)`\n"
    )
    assert site_links.dead_links(tmp_path) == ["page.md: missing.md", "page.md: there.md#none"]


def test_every_page_is_in_the_navigation(pages: Path) -> None:
    config = (pages.parent / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [p for p in pages.rglob("*.md") if f'"{p.relative_to(pages)}"' not in config]
    assert missing == []


def test_every_public_function_is_in_the_reference(pages: Path) -> None:
    text = "\n".join(page.read_text() for page in (pages / "reference").glob("*_functions.md"))
    names = {name for names in namespace.MODULES.values() for name in names.split()}
    for name in names | {"view", "simplify"}:
        assert name.startswith("_") or f"\n## {name} {{ #" in text, name
    listed = sum(len(names) for names in reference_pages.topics().values())
    assert text.count(">>> ") > listed
    assert text.count("```") % 2 == 0


def test_the_playground_page_has_a_proof_and_a_counterexample(pages: Path) -> None:
    text = (pages / "playground.md").read_text(encoding="utf-8")
    assert "is `r + v`" in text
    assert "c1 = -1" in text
    assert "For all integers" in text


def test_the_benchmark_page_has_every_figure_of_the_file(tmp_path: Path) -> None:
    results = Results(2)
    results.versions = {"porism": "0.1.0", "numpy": "2.4.6"}
    results.missing = {"torch": "it is <not> installed"}
    workload = "mm_512"
    for name, seconds in (("porism", 0.002), ("numpy", 0.001)):
        cell = {"seconds": seconds, "right": True, "error": 0.0}
        results.add(workload, {name: cell}, "a run")
    file = tmp_path / "figures.json"
    results.write(file)
    (tmp_path / "pages").mkdir()
    benchmark_page.write(file, tmp_path / "pages")
    text = (tmp_path / "pages" / "benchmarks.md").read_text(encoding="utf-8")
    assert "numpy 2.4.6, porism 0.1.0" in text
    assert "it is &lt;not&gt; installed" in text
    assert f"{workload}: numpy is 2.00 times as fast" in text
    picture = (tmp_path / "pages" / "figures" / "benchmarks.svg").read_text(encoding="utf-8")
    tree = ElementTree.fromstring(picture)
    words = [element.text for element in tree.iter() if element.text and element.text.strip()]
    assert {workload, "porism 2 ms", "numpy 1 ms"} <= set(words)
    assert site_links.dead_links(tmp_path / "pages") == []
