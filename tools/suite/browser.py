"""Pages in a real browser: views of programs, the site and the playground; clicks, and times it.

Needs Playwright and Chromium, which nothing else needs: `pip install playwright`, and a Chromium
of the system, or `playwright install chromium`; the site also MkDocs, which `./dev docs` installs.
`./dev suite browser --out FOLDER` keeps the pages, and pictures of them in light and dark, wide
and narrow.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import porism
from porism.base.errors import PorismError
from porism.simplifier.playground import playground_server
from porism.tensor.inspect.program_view import View
from tools.site import site_pages, start_page

READY_MS: Final = 2000
"""A page is to be ready for its reader so soon."""
FRAME_MS: Final = 16
"""A frame of panning is to take at most so long: then sixty are drawn in a second."""
LARGEST: Final = 5_000_000
"""Bytes of a page, at most."""
SIZES: Final = ((1500, 900), (420, 900))


def softmax() -> View:
    x = porism.asarray(np.ones((256, 1024), np.float32))
    return porism.view(lambda: x.softmax())


def model(name: str) -> View:
    from benchmarks import models

    build = models.resnet_50() if name == "resnet" else models.blocks(1)
    return porism.view(build, runs=1)


def synthetic(count: int = 1500) -> View:
    """Return a view of so many kernels, which are those of a small program again and again."""
    x = porism.asarray(np.ones((256, 256), np.float32))
    small = porism.view(((x @ x) @ x) @ x, runs=1)
    data = copy.deepcopy(small.data)
    program = data["programs"][0]
    steps, buffers = [], []
    for k in range(count):
        step = copy.deepcopy(program["steps"][k % len(program["steps"])])
        layer = f"layer[{k // 30}]"
        buffers.append({**program["buffers"][0], "name": f"temporary{k}", "role": "temporary",
                        "offset": (k % 7) * 262144, "bytes": 262144, "first": k,
                        "last": min(k + 3, count - 1)})  # fmt: skip
        inputs = [b for b in (k - 1, k - 3) if b >= 0]
        step |= {
            "buffers": [k, *inputs],
            "writes": 1,
            "after": inputs,
            "path": ["Network", layer, f"part{k % 5}"],
        }
        step["seconds"] = step["total"] = (step["seconds"] or 1e-4) * (1 + k % 13)
        steps.append(step)
    program |= {
        "steps": steps,
        "buffers": buffers,
        "arena": {"peak": 7 * 262144, "sum": count << 18},
    }
    events = [[0, k, 100.0 * k, 90.0, 0] for k in range(count)]
    calls = [[0, 0.0, 100.0 * count, 0]]
    data |= {"title": "<script>alert('synthetic')</script>", "events": events, "calls": calls}
    return View(data)


PAGES: Final[dict[str, Callable[[], View]]] = {
    "softmax": softmax,
    "gpt2-block": lambda: model("gpt"),
    "resnet-50": lambda: model("resnet"),
    "synthetic-1500": synthetic,
    "synthetic-10000": lambda: synthetic(10_000),
}


def visit(browser: Any, file: Path, pictures: Path | None) -> list[str]:
    """Open a page in every size and theme, click through it, and return what is wrong."""
    faults: list[str] = []
    for scheme in ("light", "dark"):
        for width, height in SIZES:
            context = browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": height}
            )
            page = context.new_page()
            errors: list[str] = []
            page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
            page.on("console", lambda message, errors=errors: errors.append(message.text))
            page.on("dialog", lambda dialog, errors=errors: errors.append("a script of data ran"))
            page.goto(file.resolve().as_uri())
            page.wait_for_function("document.documentElement.dataset.ready", timeout=30_000)
            ready = int(page.evaluate("document.documentElement.dataset.ready"))
            if pictures is not None:
                page.screenshot(path=pictures / f"{file.stem}-{scheme}-{width}.png")
            pan = page.evaluate(PAN)
            faults += [f"{file.stem}: {fault}" for fault in click_through(page)]
            print(f"{file.stem:<16} {scheme:<5} {width:>5} px: ready in {ready} ms, "
                  f"a frame of all kernels {pan:.1f} ms, {len(errors)} messages")  # fmt: skip
            faults += [f"{file.stem}: {error}" for error in errors]
            if pan > FRAME_MS:
                faults.append(
                    f"{file.stem}: a frame of panning takes {pan:.1f} ms, over {FRAME_MS}"
                )
            if ready > READY_MS:
                faults.append(f"{file.stem}: ready in {ready} ms, over {READY_MS}")
            context.close()
    return faults


PAN: Final = """() => {
  openAll(true);
  const begin = performance.now();
  for (let k = 0; k < 20; k++) { graph.view.x += 5; graph.view.y -= 5; drawGraph(); }
  return (performance.now() - begin) / 20;
}"""


def click_through(page: Any) -> list[str]:
    """Go to the proof of a rule, to the assembly, to every tab; return what is missing."""
    faults = []
    for tab in "1234567":
        page.keyboard.press(tab)
    page.keyboard.press("3")
    if not page.locator("#trace").count() and not page.locator("#program-body .empty").count():
        faults.append("the trace is not drawn")
    page.keyboard.press("s")
    chip = page.locator("#kernel-body .chip[data-rule]").first
    chip.click()
    if "porism prove" not in (page.locator("#dialog").text_content() or ""):
        faults.append("the dialog of a rule has no proof")
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    page.locator('.lines[aria-label="Loops"] div', has_text="for ").first.hover()
    lit = page.locator('.lines[aria-label="Assembly"] div.lit').count()
    if not lit:
        faults.append("pointing at a loop lights no line of assembly")
    lit_lines = page.locator('.lines[aria-label="Assembly"] div.lit')
    if lit_lines.count():
        lit_lines.last.hover()
        if not page.locator('.lines[aria-label="Assembly"] div.exact').count():
            faults.append("pointing at an instruction does not mark it")
    page.keyboard.press("/")
    page.keyboard.type("sum")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    page.evaluate("beginPrint()")
    if not page.locator("#printed table").count():
        faults.append("the kernels are not on paper")
    page.evaluate("endPrint()")
    return faults


def visit_in_frame(browser: Any, view: View) -> list[str]:
    """Open a view as a notebook does, in a frame; return the messages of the browser."""
    errors: list[str] = []
    page = browser.new_page()
    page.on("pageerror", lambda error: errors.append(f"in a frame: {error}"))
    page.on("console", lambda message: errors.append(f"in a frame: {message.text}"))
    page.set_content(view._repr_html_())
    frame = page.frames[1]
    frame.wait_for_function("document.documentElement.dataset.ready", timeout=30_000)
    frame.locator("#timeline").click()
    page.close()
    return errors


def open_page(browser: Any, scheme: str, size: tuple[int, int], faults: list[str]) -> Any:
    """Return a new page whose messages and errors are added to the faults."""
    page = browser.new_page(color_scheme=scheme, viewport={"width": size[0], "height": size[1]})

    def add(text: str) -> None:
        faults.append(f"{page.url.rpartition('/')[2]}: {text}")

    page.on("pageerror", lambda error: add(str(error)))
    page.on("console", lambda message: add(message.text))
    page.on("request", lambda request: is_local(request.url) or add(f"asks for {request.url}"))
    return page


def is_local(url: str) -> bool:
    """Return whether a page may ask for something."""
    return url.startswith(("file:", "data:", "about:", "blob:", "http://127.0.0.1:"))


def visit_site(browser: Any, pictures: Path | None) -> list[str]:
    """Build the site and open all of its pages as files, without a server; return what is wrong."""
    status = subprocess.run([sys.executable, "-m", "tools.site", "build"], check=False).returncode
    if status:
        return ["the site could not be built"]
    html = site_pages.FOLDER / "html"
    faults: list[str] = []
    for scheme, size in zip(("light", "dark"), SIZES, strict=True):
        page = open_page(browser, scheme, size, faults)
        skipped = {html / "404.html", html / start_page.EXAMPLE}  # for servers; visited by itself
        files = sorted(set(html.rglob("*.html")) - skipped)
        for file in files:
            page.goto(file.as_uri())
            if page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"):
                faults.append(f"{file.relative_to(html)}: is wider than {size[0]} pixels")
        page.goto((html / "index.html").as_uri())
        page.keyboard.press("/")
        page.keyboard.type("softmax")
        try:
            page.wait_for_selector(".md-search-result__link", timeout=10_000)
        except Exception:
            faults.append("the search of the site finds nothing")
        if pictures is not None:
            page.screenshot(path=pictures / f"site-search-{scheme}-{size[0]}.png")
            page.goto((html / "index.html").as_uri())
            page.screenshot(path=pictures / f"site-{scheme}-{size[0]}.png")
        print(f"site             {scheme:<5} {size[0]:>5} px: {len(files)} pages")
        page.close()
    return faults


def visit_playground(browser: Any, pictures: Path | None) -> list[str]:
    """Serve the playground, simplify an expression and refute a rule; return what is wrong."""
    faults: list[str] = []
    server = playground_server.new_server(0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for scheme, size in zip(("light", "dark"), SIZES, strict=True):
        page = open_page(browser, scheme, size, faults)
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.locator("#expressions button").first.click()
        page.locator("#result .answer", has_text="x").wait_for(timeout=30_000)
        page.locator("#prove button").click()
        page.locator("#verdict .refuted").wait_for(timeout=30_000)
        if pictures is not None:
            page.screenshot(path=pictures / f"playground-{scheme}-{size[0]}.png", full_page=True)
        print(f"playground       {scheme:<5} {size[0]:>5} px")
        page.close()
    server.shutdown()
    server.server_close()
    return faults


OTHERS: Final[dict[str, Callable[[Any, Path | None], list[str]]]] = {
    "site": visit_site,
    "playground": visit_playground,
}


def main(arguments: list[str] | None = None) -> int:
    """Make the pages, visit each, and return the exit status."""
    parser = argparse.ArgumentParser(prog="./dev suite browser", description=__doc__)
    parser.add_argument("--out", type=Path, help="a folder for pages and pictures")
    names = [*PAGES, *OTHERS]
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names)}; all by default")
    options = parser.parse_args(arguments)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise PorismError(
            "there is no browser to test with",
            where="./dev suite browser",
            why="it needs Playwright, which is not part of the set-up",
            fix="run '.venv/bin/pip install playwright', and install Chromium",
        ) from None
    folder = options.out or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or None, args=["--no-sandbox"]
        )
        for name in options.names or names:
            if name in OTHERS:
                faults += OTHERS[name](browser, options.out)
                continue
            shown = PAGES[name]()
            file = shown.save(folder / f"{name}.html")
            size = file.stat().st_size
            print(f"{name}: {size / 1e6:.2f} MB")
            if size > LARGEST:
                faults.append(f"{name}: {size} bytes, over {LARGEST}")
            faults += visit(browser, file, options.out)
            faults += visit_in_frame(browser, shown)
        browser.close()
    print("\n".join(faults) or "no faults")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
