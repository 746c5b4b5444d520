"""The raw sink: receives into one buffer and does nothing else, not even answer. The floor of a Python socket loop.

python raw_sink.py PORT
"""

from __future__ import annotations

import socket
import sys

CHUNK_BYTES = 512 * 1024


def main() -> None:
    """Serve one connection after the other, for ever."""
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    buffer = bytearray(CHUNK_BYTES)
    while True:
        connection, _ = listener.accept()
        with connection:
            try:
                while connection.recv_into(buffer):
                    pass
            except ConnectionError:
                pass


if __name__ == "__main__":
    main()
