"""The gateway: who is connected, what they are told, and how they lose it."""

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from bot.values import Json
from tests.fakes.discord.things import User

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
REQUEST_MEMBERS = 8
MESSAGE_CONTENT = 1 << 15
#: An intent that must be allowed, and the flags of the application that allow it.
PRIVILEGED = {1 << 1: 0b11 << 14, 1 << 8: 0b11 << 12, MESSAGE_CONTENT: 0b11 << 18}
ALL_INTENTS = (1 << 26) - 1
#: What an event needs in servers, and in direct messages.
INTENTS = {
    "MESSAGE": (1 << 9, 1 << 12),
    "MESSAGE_REACTION": (1 << 10, 1 << 13),
    "TYPING": (1 << 11, 1 << 14),
    "GUILD": (1 << 0, 0),
    "GUILD_MEMBER": (1 << 1, 0),
    "CHANNEL": (1 << 0, 0),
    "THREAD": (1 << 0, 0),
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the gateway tells.

    Attributes:
        hidden: The same for whoever may not read it; `None` if everybody may.
        guild: The id of the server; 0 for direct messages.
    """

    name: str
    data: Json
    hidden: Json | None = None
    guild: int = 0

    @property
    def intent(self) -> int:
        """What a session must have asked for to be told; 0 for nothing."""
        kind = self.name.rpartition("_")[0]
        return INTENTS.get(kind, (0, 0))[0 if self.guild else 1]


@dataclass(eq=False)
class Session:
    """A client's claim to be told what happens, also while it is not connected."""

    intents: int
    shard: tuple[int, int]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    told: list[Json] = field(default_factory=list)
    connection: "Connection | None" = None

    def tell(self, event: Event) -> None:
        """Put one more event into line, if the session wants it."""
        if (event.guild >> 22) % self.shard[1] != self.shard[0]:
            return
        if event.intent and not self.intents & event.intent:
            return
        readable = event.hidden is None or self.intents & MESSAGE_CONTENT
        self.put(event.name, event.data if readable else event.hidden)

    def put(self, name: str, data: Json | None) -> None:
        """Put something into line."""
        frame = {"op": DISPATCH, "t": name, "s": len(self.told) + 1, "d": data}
        self.told.append(frame)
        if self.connection:
            self.connection.send(frame)


class Connection:
    """A websocket, and what is still to be sent on it."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self.socket = socket
        self.session: Session | None = None
        #: The client has read the beginning of its session, so it can resume it.
        self.greeted = False
        #: Why we closed it; `None` as long as we did not.
        self.closed_with: int | None = None
        #: It is about to end, by our doing.
        self.leaving = False
        self._request = request
        self._line: asyncio.Queue[str | int] = asyncio.Queue()

    def send(self, frame: Json) -> None:
        """Send something when it is its turn."""
        self.send_text(json.dumps(frame))

    def send_text(self, text: str) -> None:
        """Send a text, JSON or not, when it is its turn."""
        self._line.put_nowait(text)

    def close(self, code: int) -> None:
        """Close it when all is sent."""
        self.leaving = True
        self._line.put_nowait(code)

    def abort(self) -> None:
        """Tear it down."""
        self.leaving = True
        if self._request.transport:
            self._request.transport.abort()

    async def write(self) -> None:
        """Send what is in line until it is closed."""
        while not isinstance(frame := await self._line.get(), int):
            if self.socket.closed:
                return
            try:
                await self.socket.send_str(frame)
            except ConnectionError:
                return
        self.closed_with = frame
        await self.socket.close(code=frame)


class Gateway:
    """What a client is connected to.

    Attributes:
        token: The only one that is accepted.
        flags: The application's flags: which privileged intents are allowed.
        heartbeat_seconds: How often clients must say that they live.
        identifies: How often a session began.
        resumes: How often one went on.
        intents: Of the last identify.
        refused: Nobody can connect.
        acks: Whether heartbeats are answered.
        shards: The least number of shards.
        greeting: Gives the READY and the servers of a shard.
    """

    def __init__(self, token: str, bot: User, touch: Callable[[], None]) -> None:
        self.token = token
        self.bot = bot
        self.url = ""
        self.flags = 0
        self.heartbeat_seconds = 41.25
        self.identifies = self.resumes = self.intents = self.heartbeats = 0
        self.refused = False
        self.acks = True
        self.shards = 1
        self.frames: list[Json] = []
        self.close_codes: list[int | None] = []
        self.greeting: Callable[[Session], list[Event]] = lambda _: []
        self.connections: list[Connection] = []
        self.sessions: dict[str, Session] = {}
        self._touch = touch

    def tell(self, event: Event) -> None:
        """Tell all sessions."""
        for session in self.sessions.values():
            session.tell(event)

    @property
    def connected(self) -> list[Session]:
        """The sessions that hear us now, and whose clients know of them."""
        return [
            each.session
            for each in self.connections
            if each.session and each.greeted and not each.leaving
        ]

    # -- how it is lost --------------------------------------------------------------------------

    def drop(self, code: int | None = 4000) -> None:
        """Close all connections with this code; `None` tears them down."""
        for connection in self.connections:
            if code is None:
                connection.abort()
            else:
                connection.close(code)

    def reconnect(self) -> None:
        """Ask all clients to connect anew."""
        for connection in self.connections:
            connection.leaving = True
            connection.send({"op": RECONNECT, "d": None})

    def invalidate(self, *, resumable: bool = False) -> None:
        """End all sessions, or say that their connections ended."""
        for connection in self.connections:
            if connection.session and not resumable:
                del self.sessions[connection.session.id]
            connection.leaving = True
            connection.send({"op": INVALID, "d": resumable})

    @contextmanager
    def down(self) -> Iterator[None]:
        """Be out of reach while the block lasts; sessions can be resumed afterwards."""
        self.refused = True
        self.drop(None)
        try:
            yield
        finally:
            self.refused = False

    # -- what a client does ----------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one connection."""
        if self.refused:
            return web.Response(status=503)
        socket = web.WebSocketResponse(timeout=1.0, max_msg_size=0)
        await socket.prepare(request)
        connection = Connection(socket, request)
        self.connections.append(connection)
        try:
            async with asyncio.TaskGroup() as tasks:
                writing = tasks.create_task(connection.write())
                await self._read(connection, request)
                if connection.closed_with is None:
                    writing.cancel()
        finally:
            self._forget(connection)
        return socket

    def _forget(self, connection: Connection) -> None:
        self.connections.remove(connection)
        code = connection.socket.close_code
        self.close_codes.append(code)
        session = connection.session
        if session and session.connection is connection:
            session.connection = None
            # A client that leaves in peace does not come back to its session.
            if code in {1000, 1001} and connection.closed_with is None:
                self.sessions.pop(session.id, None)
        self._touch()

    async def _read(self, connection: Connection, request: web.Request) -> None:
        if request.query.get("v") != "10":
            connection.close(4012)
        interval = int(self.heartbeat_seconds * 1000)
        connection.send({"op": HELLO, "d": {"heartbeat_interval": interval}})
        async for message in connection.socket:
            if message.type is not WSMsgType.TEXT:
                continue
            frame: Json = json.loads(message.data)
            self.frames.append(frame)
            self._take(connection, frame["op"], frame.get("d"))
            self._touch()

    def _take(self, connection: Connection, op: int, data: Json | None) -> None:
        if op == HEARTBEAT:
            self.heartbeats += 1
            connection.greeted |= bool(data)
            if self.acks:
                connection.send({"op": ACK})
        elif op == IDENTIFY and data:
            self._identify(connection, data)
        elif op == RESUME and data:
            self._resume(connection, data)
        elif op == REQUEST_MEMBERS and data and connection.session:
            self._members(connection.session, data)

    def _identify(self, connection: Connection, data: Json) -> None:
        self.identifies += 1
        self.intents = data["intents"]
        number, count = data.get("shard", (0, 1))
        if code := self._refusal(data["token"], self.intents, number, count):
            connection.close(code)
            return
        session = Session(self.intents, (number, count))
        self.sessions[session.id] = session
        connection.session, session.connection = session, connection
        for event in self.greeting(session):
            session.put(event.name, event.data)
        # The answer holds the number of the last event that the client has read.
        connection.send({"op": HEARTBEAT, "d": None})

    def _refusal(self, token: str, intents: int, number: int, count: int) -> int:
        if token != self.token:
            return 4004
        if not 0 <= number < count:
            return 4010
        if count < self.shards:
            return 4011
        if intents & ~ALL_INTENTS:
            return 4013
        wanted = [allowed for intent, allowed in PRIVILEGED.items() if intents & intent]
        return 0 if all(self.flags & allowed for allowed in wanted) else 4014

    def _resume(self, connection: Connection, data: Json) -> None:
        session = self.sessions.get(data["session_id"])
        if data["token"] != self.token:
            connection.close(4004)
        elif session is None:
            connection.send({"op": INVALID, "d": False})
        else:
            self.resumes += 1
            if session.connection:
                session.connection.abort()
            connection.session, session.connection = session, connection
            for frame in session.told[data["seq"] or 0 :]:
                connection.send(frame)
            session.put("RESUMED", {})
            connection.greeted = True

    def _members(self, session: Session, data: Json) -> None:
        chunk = {"guild_id": str(data["guild_id"]), "members": [], "not_found": []}
        session.put("GUILD_MEMBERS_CHUNK", chunk | {"chunk_index": 0, "chunk_count": 1})
