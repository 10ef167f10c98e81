"""The documentation site: pages from docs/ and pages that are generated, built by MkDocs.

    python -m tools.site build     writes build/site/html
    python -m tools.site serve     builds it, and serves it on this machine, also without a network

`./dev docs` does the same, and installs MkDocs first.
"""
