"""Opens HTTP clients for MCP servers: limited to the configured origin, with bounded input."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from skills.mcp.flow import MOST_MESSAGE_BYTES, FloodError, Flow
from skills.mcp.settings import McpServerSettings


@asynccontextmanager
async def http_client(settings: McpServerSettings, flow: Flow) -> AsyncIterator[httpx2.AsyncClient]:
    """Open the client for one origin, which may be a private address, since an admin has named it.

    Redirects are followed by the SDK, and only within the origin.
    """
    headers = {key: value.get_secret_value() for key, value in settings.headers.items()}
    seconds = settings.connect_seconds
    async with httpx2.AsyncClient(
        # A small compressed response must not become large here.
        headers={"Accept-Encoding": "identity", **headers},
        timeout=httpx2.Timeout(seconds, read=max(300.0, settings.timeout_seconds)),
        transport=_Measured(flow),
        # Ignore proxies and password files of the environment.
        trust_env=False,
    ) as client:
        yield client


class _Measured(httpx2.AsyncHTTPTransport):
    """Counts incoming bytes, and refuses compressed responses."""

    def __init__(self, flow: Flow) -> None:
        super().__init__()
        self._flow = flow

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; its response is counted while it is read."""
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError("it answers packed, and was asked not to")
        streaming = response.headers.get("content-type", "").startswith("text/event-stream")
        most = None if streaming else MOST_MESSAGE_BYTES
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Counted(response.stream, self._flow, most)
        return response


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, flow: Flow, most: int | None) -> None:
        self._inner = inner
        self._flow = flow
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._flow.take_octets(len(chunk))
            if self._left is not None:
                self._left -= len(chunk)
                if self._left < 0:
                    raise FloodError("it sends a message without an end")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
