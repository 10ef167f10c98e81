"""`python -m porism`: the command line."""

import sys

from porism.cli import main

if __name__ == "__main__":
    sys.exit(main())
