"""`edgesocket collect` that notices a dead connection within seconds instead of half a minute; else the same."""

import sys

from edgesocket.cli.main import main
from edgesocket.collector import connection

connection._KEEPALIVE.update(TCP_KEEPIDLE=1, TCP_KEEPINTVL=1, TCP_KEEPCNT=2, TCP_USER_TIMEOUT=3000)
sys.exit(main(["collect", *sys.argv[1:]]))
