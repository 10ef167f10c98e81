"""`python -m tools.site build|serve|pages`: the documentation site."""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tools.site import site_links, site_pages


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, check their links, and build or serve the site."""
    parser = argparse.ArgumentParser(prog="./dev docs", description="The documentation site.")
    parser.add_argument("job", nargs="?", choices=("serve", "build", "pages"), default="serve")
    parser.add_argument("--port", type=int, default=8128)
    parser.add_argument(
        "--bench", type=Path, metavar="FILE", default=site_pages.FIGURES,
        help="figures of ./dev bench cpu --json for the page of benchmarks, instead of those kept",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if not options.bench.is_file():
        parser.error(f"there is no file {options.bench}: ./dev bench cpu --json writes one")
    site_pages.write(site_pages.FOLDER, options.bench)
    dead = site_links.dead_links(site_pages.FOLDER / "pages")
    if dead:
        print("\n".join(dead), file=sys.stderr)
        return 1
    if options.job == "pages":
        return 0
    config = site_pages.FOLDER / "mkdocs.yml"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(config)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # an advertisement
    status = subprocess.run(command, check=False, env=environment).returncode
    html = site_pages.FOLDER / "html"
    outside = site_pages.keep_local(html) if status == 0 else []
    if outside:
        print("the site needs other hosts:", *outside, sep="\n  ", file=sys.stderr)
        return 1
    print(f"the site is in {html}" if status == 0 else "the site could not be built")
    if status or options.job == "build":
        return status
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(html))
    with ThreadingHTTPServer(("127.0.0.1", options.port), handler) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}/", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
