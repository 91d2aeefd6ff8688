"""Ports for what is to listen later."""

import random
import socket

#: Below those that systems give to connections, and to whoever asks for any.
FIRST, LAST = 20_000, 30_000


def free_port() -> int:
    """Return a port of this machine on which nobody listens, nor will by chance."""
    while True:
        port = random.randint(FIRST, LAST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
