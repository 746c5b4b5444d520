"""`python -m edgesocket`."""

import sys

from edgesocket.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
