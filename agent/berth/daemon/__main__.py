"""``python -m berth.daemon`` is ``berthd``."""

import sys

from berth.daemon import main

if __name__ == "__main__":
    sys.exit(main())
