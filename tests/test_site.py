"""The documentation site: lessons run, no link is dead, every function is in the reference."""

from __future__ import annotations

import doctest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.cpu_results import Results
from porism.tensor import namespace
from tools.site import benchmark_page, reference_pages, site_links, site_pages, start_page

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


def test_the_site_has_a_page_of_benchmarks(pages: Path) -> None:
    assert "figures/benchmarks.svg" in (pages / "benchmarks.md").read_text(encoding="utf-8")
    picture = (pages / "figures" / "benchmarks.svg").read_text(encoding="utf-8")
    results = Results.read(site_pages.FIGURES)
    assert all(workload in picture for workload in results.cells)
    assert len(results.cells) > 30
    assert {"porism", "torch", "jax.jit", "numpy"} <= set(results.versions)


def test_decisions_are_numbered_without_gaps() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [page.name[:4] for page in pages] == [f"{k + 1:04}" for k in range(len(pages))]
    for page in pages:
        assert page.read_text(encoding="utf-8").startswith(f"# {page.name[:4]} "), page.name


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
    assert "| numpy | 0.50 | 0 of 1 |" in text
    assert "roofline.svg" not in text  # no limits were measured
    assert site_links.dead_links(tmp_path / "pages") == []


def test_the_roofline_has_every_point_and_the_limits_that_were_measured(tmp_path: Path) -> None:
    results = Results(2)
    rates = {f"{level} {kind}": 2e11 for level in ("L3", "DRAM") for kind in ("copy", "triad")}
    results.limits = [
        {**rates, "peak f32": 4e11, "L3 read": 2e11, "DRAM read": 5e10, "cache": 2**25}
    ]
    for workload in ("mm_512", "softmax_512"):
        for name in ("porism", "numpy"):
            cell = {"seconds": 0.002, "right": True, "error": 0.0}
            results.add(workload, {name: cell}, "2026-01-01 00:00:00")
    tree = ElementTree.fromstring(benchmark_page.roofline(results))
    titles = [e.text or "" for e in tree.iter() if e.tag.endswith("title")]
    assert sorted(title.partition(":")[0] for title in titles) == [
        "mm_512, numpy", "mm_512, porism", "softmax_512, numpy", "softmax_512, porism",
    ]  # fmt: skip
    words = {element.text for element in tree.iter() if element.text}
    assert {"multiply-adds 400 GFLOP/s", "DRAM read 50 GB/s", "L3 read 200 GB/s"} <= words
    for circle in (e for e in tree.iter() if e.tag.endswith("circle")):
        assert 0 < float(circle.get("cx", 0)) < 720
        assert 0 < float(circle.get("cy", 0)) < 380


def test_a_page_that_needs_another_host_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    shim = '<script src="https://example.org/iframe-worker/shim"></script>'
    (tmp_path / "a" / "page.html").write_text(shim)
    assert site_pages.keep_local(tmp_path) == []
    assert 'src="../assets/file_workers.js"' in (tmp_path / "a" / "page.html").read_text()
    (tmp_path / "other.html").write_text('<img alt="x" src="https://example.org/x.png">')
    assert site_pages.keep_local(tmp_path) == ["other.html: https://example.org/x.png"]


def test_the_start_page_shows_a_program(pages: Path) -> None:
    text = (pages / "index.md").read_text(encoding="utf-8")
    assert text.startswith(f"{start_page.HEAD}# Porism\n")
    assert (pages / start_page.EXAMPLE).stat().st_size < 5_000_000
    assert start_page.FRAME in text
    assert start_page.FRAME in (pages / "view.md").read_text(encoding="utf-8")
    assert "[docs/" not in text  # titles of pages, and not paths of files
