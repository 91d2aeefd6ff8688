"""A connection to an MCP server; the only module that uses the SDK's client.

Importing this module takes a second: see `skills.mcp.server`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

from anyio import ClosedResourceError
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    Implementation,
    JSONRPCRequest,
    JSONRPCResponse,
    Tool,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from bot.agent.sanitizer import escape_for_model
from bot.errors import ToolError
from bot.values import Json
from skills.mcp.flow import MOST_MESSAGE_BYTES, Flow
from skills.mcp.http import http_client
from skills.mcp.settings import McpServerSettings
from skills.mcp.stdio import stdio_transport
from skills.mcp.tools import too_slow

log = logging.getLogger(__name__)

MOST_PAGES = 20
MOST_ROUNDS = 3
_KEPT = ("name", "description", "inputSchema")


class McpLink:
    """A connected server.

    Attributes:
        ended: Set when the connection has ended.
    """

    def __init__(self, name: str, client: Client, ended: asyncio.Event) -> None:
        self.ended = ended
        self._name = name
        self._client = client

    async def tools(self) -> list[Json]:
        """Return the list of tools, as the server sends it.

        Raises:
            MCPError: The server did not return it.
        """
        capabilities = self._client.server_capabilities
        if capabilities is not None and capabilities.tools is None:
            return []
        found: list[Json] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor, cache_mode="bypass")
            found += [tool.model_dump(mode="json", by_alias=True) for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def call(self, tool: str, arguments: Json, *, seconds: float) -> Json:
        """Call a tool and return its result.

        Raises:
            ToolError: The call failed.
        """
        try:
            result = await self._client.call_tool(tool, arguments, read_timeout_seconds=seconds)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise too_slow(self._name, seconds) from None
            if error.code == CONNECTION_CLOSED:
                problem = (
                    f"The connection to the MCP server {self._name} ended during the call. It may "
                    "have done what was asked: check that before you call it again."
                )
            else:
                text = escape_for_model(error.message, limit=1_000)
                problem = (
                    f"The MCP server {self._name} refused the call. It says (untrusted): {text}"
                )
            raise ToolError(problem) from None
        except (ValidationError, RuntimeError, ValueError) as error:
            log.warning(
                "The MCP server %s answered a call with what is no answer: %s",
                self._name,
                type(error).__name__,
            )
            raise ToolError(
                f"The MCP server {self._name} gave no answer that can be read. It may have done "
                "what was asked. Try another way, or go on without it."
            ) from None
        return result.model_dump(mode="json", by_alias=True)

    async def read(self, uri: str) -> list[Json]:
        """Return the contents of a resource.

        Raises:
            ToolError: It cannot be read.
        """
        try:
            result = await self._client.read_resource(uri, cache_mode="bypass")
        except (MCPError, ValidationError, RuntimeError, ValueError) as error:
            problem = f"The MCP server {self._name} did not return it ({type(error).__name__})."
            raise ToolError(problem) from None
        return [each.model_dump(mode="json", by_alias=True) for each in result.contents]

    async def listen(self, on_change: Callable[[], object]) -> None:
        """Receive change notifications while the server sends them; old servers need no request."""
        try:
            async with self._client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    on_change()
        except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            return


@asynccontextmanager
async def connect(
    name: str,
    settings: McpServerSettings,
    environ: Mapping[str, str],
    on_change: Callable[[], object],
) -> AsyncIterator[McpLink]:
    """Connect to a server; the block must be left by the task that entered it.

    Requests of the server to the bot (to sample a model, to ask the user, for folders) are refused:
    the SDK does so when no handler is given.
    """
    # The SDK logs data from servers at every level.
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    logging.getLogger("client").setLevel(logging.CRITICAL)

    async def on_message(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            on_change()

    async with AsyncExitStack() as stack:
        flow, ended = Flow(), asyncio.Event()
        if settings.url:
            http = await stack.enter_async_context(http_client(settings, flow))
            inner: Any = streamable_http_client(
                settings.url, http_client=http, max_sse_event_size=MOST_MESSAGE_BYTES
            )
        else:
            inner = stdio_transport(name, settings, environ, flow)
        client = Client(
            _guarded(name, inner, flow, ended),
            read_timeout_seconds=settings.connect_seconds,
            message_handler=on_message,
            client_info=Implementation(name="retinue", version="1"),
            input_required_max_rounds=MOST_ROUNDS,
            cache=None,
        )
        yield McpLink(name, await stack.enter_async_context(client), ended)


@asynccontextmanager
async def _guarded(
    name: str, transport: Any, flow: Flow, ended: asyncio.Event
) -> AsyncIterator[tuple[Any, Any]]:
    """Open a transport whose messages are counted, and cleaned before the SDK reads them."""
    async with transport as (inbox, outbox):
        yield _GuardedStream(name, inbox, flow, ended), outbox


class _GuardedStream:
    """Wraps the stream of incoming messages: counts and cleans each."""

    def __init__(self, name: str, inner: Any, flow: Flow, ended: asyncio.Event) -> None:
        self._name = name
        self._inner = inner
        self._flow = flow
        self._ended = ended

    @property
    def last_context(self) -> Any:
        """An attribute that the SDK reads from some streams."""
        return getattr(self._inner, "last_context", None)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._inner.__aexit__(*error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            item: SessionMessage | Exception = await self._inner.__anext__()
        except (StopAsyncIteration, ClosedResourceError):
            self._ended.set()
            raise
        if isinstance(item, Exception):
            return item
        message = item.message
        self._flow.take_message(request=isinstance(message, JSONRPCRequest))
        listed = message.result.get("tools") if isinstance(message, JSONRPCResponse) else None
        if isinstance(message, JSONRPCResponse) and isinstance(listed, list):
            usable = [tool for each in listed if (tool := _usable_tool(each))]
            if broken := len(listed) - len(usable):
                log.warning("The MCP server %s lists %d broken tools", self._name, broken)
            message.result["tools"] = usable
        return item


def _usable_tool(tool: object) -> Json | None:
    """Return the parts of a tool that we use; `None` for a broken tool, which is left out.

    The SDK would check results against the server's own schema for them; with a pattern of the
    server's choice, that could take for ever.
    """
    if not isinstance(tool, dict):
        return None
    kept = {key: tool[key] for key in _KEPT if tool.get(key) is not None}
    schema = kept.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return None
    if not isinstance(kept.get("description", ""), str):
        del kept["description"]
    try:
        Tool.model_validate(kept, by_name=False)
    except ValidationError:
        return None
    return kept
