"""Accesses a calendar on a CalDAV server: caldav's protocol over the guarded HTTP client."""

import asyncio
import base64
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from caldav.async_davclient import AsyncDAVClient
from caldav.response import CalendarQueryResult, DAVResponse, PropfindResult

from bot.errors import ToolError
from bot.net.base import WebError
from bot.net.bodies import MEGABYTE, BodyLimits
from bot.net.guard import OpenClient
from bot.net.web import send_once
from skills.calendar.settings import CalendarSettings
from skills.calendar.times import TimeWindow

if TYPE_CHECKING:
    from caldav.lib.url import URL

log = logging.getLogger(__name__)

LIMITS = BodyLimits(wire=4 * MEGABYTE, unpacked=4 * MEGABYTE)
CALENDAR_TYPE = "{urn:ietf:params:xml:ns:caldav}calendar"
_TYPE = "{DAV:}resourcetype"
#: Responses that an admin must look at.
_REFUSALS: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "does not let the bot in: its account is refused",
    HTTPStatus.FORBIDDEN: "does not let the bot do this",
    HTTPStatus.NOT_FOUND: "is not where it should be",
    HTTPStatus.GONE: "is not where it should be",
}


@dataclass(frozen=True, slots=True)
class DavReply:
    """A server's response, in the form that caldav reads."""

    status_code: int
    content: bytes
    reason: str = ""
    # The content type is not used. With an XML type, caldav would log every byte of a body that is
    # no XML.
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/plain"})

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", "replace")


class RemoteCalendar(AsyncDAVClient):
    """One calendar: caldav's requests and responses, sent by our own client.

    The configuration alone decides the address: no redirect is followed, no address of a server
    is requested, and nothing is read from the environment.

    Raises:
        ToolError: (from every request) The request failed; the text has the next step.
    """

    def __init__(
        self, name: str, settings: CalendarSettings, open_client: OpenClient, *, seconds: float
    ) -> None:
        self.name = name
        self.address = settings.url.rstrip("/") + "/"
        self._open = open_client
        self._seconds = seconds
        self._authorization: dict[str, str] = {}
        if settings.password is not None:
            pair = f"{settings.username}:{settings.password.get_secret_value()}".encode()
            self._authorization["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        super().__init__(url=self.address, enable_rfc6764=False, rate_limit_handle=False)

    def _create_session(self) -> None:
        """Open nothing: caldav's own client follows redirects, and reads the environment."""

    async def between(self, window: TimeWindow) -> list[str]:
        """Return the calendar's objects that occur in a window, each as iCalendar text."""
        response = await self._parsed(
            self.calendar_query(self.address, start=window.start, end=window.end, event=True)
        )
        found = response.results or []
        texts = (each.calendar_data for each in found if isinstance(each, CalendarQueryResult))
        return [text for text in texts if text]

    async def add(self, uid: str, text: str) -> bool:
        """Add an event, never replacing one of the same id; return True if it is new."""
        headers = {"Content-Type": "text/calendar; charset=utf-8", "If-None-Match": "*"}
        response = await self.put(f"{self.address}{uid}.ics", text, headers)
        return bool(response.status != HTTPStatus.PRECONDITION_FAILED)

    async def is_calendar(self) -> bool:
        """Return True if the address is that of a calendar."""
        response = await self._parsed(self.propfind(self.address, props=[_TYPE]))
        found = response.results or []
        kinds = [each.properties.get(_TYPE) for each in found if isinstance(each, PropfindResult)]
        return any(CALENDAR_TYPE in (kind or ()) for kind in kinds)

    async def request(
        self,
        url: "str | URL",
        method: str = "GET",
        body: str = "",
        headers: Mapping[str, str] | None = None,
        rate_limit_time_slept: float = 0,
    ) -> DAVResponse:
        """Send a request of caldav to this calendar only."""
        if not str(url).startswith(self.address):
            raise self._error("is asked for something that is not in it")
        doubt = " It may have been added: look with calendar_list." if method == "PUT" else ""
        sent = {**(headers or {}), **self._authorization}
        try:
            async with asyncio.timeout(self._seconds):
                reply = await send_once(
                    self._open, method, str(url), headers=sent, body=body.encode(), limits=LIMITS
                )
        except TimeoutError:
            raise self._error(f"did not answer within {self._seconds:g} seconds", doubt) from None
        except OSError as error:
            log.warning("The calendar %s: %s", self.name, error)
            raise self._error("cannot be reached now", doubt) from None
        except WebError:
            raise self._error("gives no usable answer now", doubt) from None
        if reply.cut:
            raise self._error("has more to say than is read", " Ask for a shorter time.")
        self._check_status(reply.status, method)
        return DAVResponse(DavReply(reply.status, reply.content), self)

    async def _parsed(self, asked: Awaitable[DAVResponse]) -> DAVResponse:
        try:
            response: DAVResponse = await asked
        except ToolError:
            raise
        # caldav assumes correct servers, and raises many kinds of errors for others.
        except Exception as error:  # noqa: BLE001
            log.warning("The calendar %s is not understood: %s", self.name, type(error).__name__)
            raise self._error("gives no usable answer now") from None
        if response.tree is None:
            raise self._error("gives no usable answer now")
        return response

    def _check_status(self, status: int, method: str) -> None:
        exists = method == "PUT" and status == HTTPStatus.PRECONDITION_FAILED
        if status < HTTPStatus.MULTIPLE_CHOICES or exists:
            return
        log.warning("The calendar %s answered %d to %s", self.name, status, method)
        admins = f" The bot's admins must look at `calendar.calendars.{self.name}`."
        if status < HTTPStatus.BAD_REQUEST:
            raise self._error(f"sends us elsewhere ({status}), where we do not go", admins)
        if refusal := _REFUSALS.get(status):
            raise self._error(refusal, admins)
        if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            raise self._error("is too busy now")
        raise self._error(f"gives no usable answer now ({status})")

    def _error(self, what: str, then: str = "") -> ToolError:
        then = then or " Try again later, or go on without it."
        return ToolError(f"The calendar {self.name} {what}.{then}")
