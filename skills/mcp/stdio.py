"""Transport for a server that is a program: starts it, exchanges messages over pipes, ends it.

The SDK's own transport stores a line of any length in memory, and logs unreadable data; a hostile
or broken program must be able to do neither to the bot.
"""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from bot.agent.sanitizer import for_log
from skills.mcp.flow import MOST_MESSAGE_BYTES, FloodError, Flow, FlowLimits
from skills.mcp.settings import McpServerSettings

log = logging.getLogger(__name__)

#: Variables that a program needs of the bot's environment; none could be a secret.
INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
WRITE_SECONDS = 30.0
END_SECONDS = 2.0
KILL_SECONDS = 1.0
_CHUNK = 2_000
#: Limits for logging its standard error, at a rate that a human would read.
_LOG_LIMITS = FlowLimits(seconds=60, messages=50)

ReceivedMessages = MemoryObjectReceiveStream[SessionMessage | Exception]
SentMessages = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def stdio_transport(
    name: str, settings: McpServerSettings, environ: Mapping[str, str], flow: Flow
) -> AsyncIterator[tuple[ReceivedMessages, SentMessages]]:
    """Start the program of a server and yield its message streams; it is ended with the block.

    Its environment is the configured variables, and the inherited ones of `environ`.

    Raises:
        OSError: The program cannot be started.
    """
    variables = {key: value.get_secret_value() for key, value in settings.environment.items()}
    process = await asyncio.create_subprocess_exec(
        *settings.command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={key: environ[key] for key in INHERITED if key in environ} | variables,
        cwd=settings.folder,
        limit=MOST_MESSAGE_BYTES,
        # A process group of its own, so that its child processes can be ended with it.
        start_new_session=True,
    )
    try:
        received, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outbox, to_send = anyio.create_memory_object_stream[SessionMessage](0)
        async with received, inbox, outbox, to_send, anyio.create_task_group() as group:
            group.start_soon(_read, process, received, flow)
            group.start_soon(_write, process, to_send)
            group.start_soon(_log_errors, process, name)
            try:
                yield inbox, outbox
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _read(
    process: asyncio.subprocess.Process,
    received: MemoryObjectSendStream[SessionMessage | Exception],
    flow: Flow,
) -> None:
    assert process.stdout is not None
    async with received:
        while True:
            try:
                line = await process.stdout.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                raise FloodError("it sends a message without an end") from None
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            flow.take_octets(len(line))
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                # Programs print banners where only messages belong; each counts as a message.
                flow.take_message(request=False)
                continue
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await received.send(SessionMessage(message))


async def _write(
    process: asyncio.subprocess.Process, to_send: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    assert process.stdin is not None
    # The stream is closed when the pipe is broken, so that no sender waits for ever.
    async with to_send:
        with suppress(ConnectionError):
            async for item in to_send:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode("utf-8", "replace") + b"\n")
                # A program that does not read would block the bot, and fill its memory with unsent
                # messages.
                async with asyncio.timeout(WRITE_SECONDS):
                    await process.stdin.drain()


async def _log_errors(process: asyncio.subprocess.Process, name: str) -> None:
    assert process.stderr is not None
    allowed, silent = Flow(_LOG_LIMITS), False
    while chunk := await process.stderr.read(_CHUNK):
        try:
            allowed.take_message(request=False)
        except FloodError:
            if not silent:
                log.info("The MCP server %s says more on its standard error; it is left out", name)
            silent = True
            continue
        silent = False
        log.info("The MCP server %s says: %s", name, for_log(chunk.decode("utf-8", "replace")))


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program as the protocol requires: close its input, wait, then use signals."""
    if process.stdin is not None:
        process.stdin.close()
    ended = await _ended(process, END_SECONDS)
    # Its child processes may outlive it.
    for number, seconds in ((signal.SIGTERM, KILL_SECONDS), (signal.SIGKILL, END_SECONDS)):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
            ended = ended or await _ended(process, seconds)
    if not ended:
        log.error("The process %d of an MCP server cannot be ended; it is left behind", process.pid)
    # No public method closes the pipes that a child of it may still hold.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001


async def _ended(process: asyncio.subprocess.Process, seconds: float) -> bool:
    with anyio.move_on_after(seconds):
        # Not `wait`, which also waits for the pipes, which a child of it may hold.
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return process.returncode is not None
