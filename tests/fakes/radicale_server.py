"""A real CalDAV server, Radicale, in a thread of its own: two people, each with a calendar."""

import base64
import logging
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from radicale import config
from radicale.app import Application

PASSWORDS = {"alice": "canary-of-alice", "bob": "canary-of-bob"}


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


@dataclass(frozen=True)
class Radicale:
    """The server: each user has a calendar `main`, and may make more."""

    base: str
    folder: Path

    def url(self, person: str, calendar: str = "main") -> str:
        """Return the address of a user's calendar."""
        return f"{self.base}/{person}/{calendar}/"

    def make(self, person: str, calendar: str) -> None:
        """Make a calendar."""
        self._ask(person, "MKCALENDAR", self.url(person, calendar))

    def put(self, person: str, name: str, event: str, calendar: str = "main") -> None:
        """Put an event into a calendar: lines of a VEVENT, without its ends and UID."""
        lines = [
            *("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:test", "BEGIN:VEVENT", f"UID:{name}"),
            "DTSTAMP:20260101T000000Z",
            *event.strip().splitlines(),
            *("END:VEVENT", "END:VCALENDAR", ""),
        ]
        url = f"{self.url(person, calendar)}{name}.ics"
        self._ask(person, "PUT", url, "\r\n".join(lines))

    def objects(self, person: str, calendar: str = "main") -> list[str]:
        """Return what a calendar holds, as the server keeps it."""
        folder = self.folder / "collection-root" / person / calendar
        return [file.read_text() for file in sorted(folder.glob("*.ics"))]

    @staticmethod
    def _ask(person: str, method: str, url: str, body: str = "") -> None:
        pair = base64.b64encode(f"{person}:{PASSWORDS[person]}".encode()).decode()
        headers = {"Authorization": f"Basic {pair}", "Content-Type": "text/calendar"}
        request = urllib.request.Request(url, body.encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=10) as response:
            assert response.status in (201, 204)


@contextmanager
def radicale_server(folder: Path) -> Iterator[Radicale]:
    """Run the server on a port of its own; it keeps everything below this folder."""
    users = folder / "users"
    users.write_text("".join(f"{name}:{word}\n" for name, word in PASSWORDS.items()))
    settings = config.load()
    settings.update(
        {
            "auth": {
                "type": "htpasswd",
                "htpasswd_filename": str(users),
                "htpasswd_encryption": "plain",
                "delay": "0",
            },
            "storage": {"filesystem_folder": str(folder / "store"), "_filesystem_fsync": "False"},
            "rights": {"type": "owner_only"},
        },
        "test",
        privileged=True,
    )
    logging.getLogger("radicale").setLevel(logging.CRITICAL)
    with make_server("127.0.0.1", 0, Application(settings), _Server, _Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        radicale = Radicale(f"http://127.0.0.1:{server.server_port}", folder / "store")
        try:
            for person in PASSWORDS:
                radicale.make(person, "main")
            yield radicale
        finally:
            server.shutdown()
            thread.join(10)
