"""``python -m berth`` is the operator's command."""

import sys

from berth.cli import main

if __name__ == "__main__":
    sys.exit(main())
