"""Builds the input of the main agent for a turn: prompt, history, and state of the user's runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import dropwhile
from zoneinfo import ZoneInfo

from bot.agent.context import situation
from bot.agent.messages import Answer, Message, Usage, UserMessage
from bot.agent.sanitizer import escape_for_model, one_line
from bot.agent.settings import AgentSettings
from bot.conversations import foreign_content
from bot.conversations.access import is_private, own_scope
from bot.conversations.attribution import OVERHEARD, SHARED, attributed, authors
from bot.conversations.compaction import Compaction, shown_summary
from bot.conversations.foreign_content import ConversationFiles, MessageFiles
from bot.conversations.situation_lines import memory_lines, run_line, undelivered_lines
from bot.conversations.thread_reader import ThreadReader
from bot.conversations.turn_results import calls_of
from bot.subagents.requests import FOREIGN, Caller
from bot.values import Clock, Json, Live, Place
from db import (
    conversations,
    grants,
    history,
    memories,
    outbox,
    run_questions,
    runs,
    steps,
    todos,
    turns,
)
from db import files as stored_files
from db.conversations import StoredMessage
from db.database import Database, Transaction
from db.files import StoredFile
from db.memories import Memory
from db.outbox import OutboxEntry
from db.runs import Run
from db.turns import Turn
from skills.base import Tool

RECENT = 8
#: Most files named that were sent before a summary.
EARLIER_FILES = 50
RECENT_MINUTES = 30
UNDELIVERED = 8
#: Characters of files' texts per token of the context: 75 % of it, at three characters per token.
FILE_CHARACTERS_PER_TOKEN = 3 * 0.75

SUMMARISE = """\
The background runs whose results stand here have ended. Tell the user, in your own words and \
briefly, what came of them. This is sent as the announcement of the results.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The input that a turn begins with.

    Attributes:
        foreign: Whether the messages hold content that neither the user nor the bot wrote.
        private: Whether the messages hold private material.
        others: Whether the messages hold words of other people.
        granted: The tools that the user has allowed in this conversation.
        spent: The usage of a summary of older messages, which the turn pays for.
        away: The MCP servers whose tools the turn lacks.
    """

    messages: list[Message]
    foreign: bool
    private: bool
    others: bool = False
    granted: frozenset[str] = frozenset()
    spent: Usage = field(default_factory=Usage)
    away: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """Builds the input that a turn of the main agent begins with.

    Attributes:
        place_tools: Returns the tools whose results everyone in a place may read, by name.
        servers_away: Returns the MCP servers that are away; waits for them after a start.
    """

    database: Database
    settings: Live[AgentSettings]
    servers_away: Callable[[], Awaitable[Sequence[str]]]
    place_tools: Callable[[], Mapping[str, Tool]]
    reader: ThreadReader
    compaction: Compaction
    now: Clock

    async def begin(self, turn: Turn, *, spent: Usage | None = None) -> Beginning:
        """Return the history and the newest message, with the state of the user's runs.

        The state is not stored in the history. In a personal conversation it precedes the newest
        message; in a shared one it is a message of its own behind the history. In a place with
        several readers it names only runs that all of them can read, and no memories. A summary
        has no tools of MCP servers, so its state names no servers.

        Args:
            turn: The turn.
            spent: The usage of a summary that was made for this turn; a first attempt makes one
                if the history is too long.
        """
        away = () if turn.kind == "summary" else tuple(await self.servers_away())
        unread = "" if is_private(turn.place) else await self.reader.read(turn)
        if turn.shared:
            turn = await self._seen(turn)
        state = await self._state(turn)
        past, newest = state.past, state.newest
        files, told = await self._shown(turn, state)
        messages = [each for _, of_item in told for each in of_item]
        # A later attempt reads what the first one read.
        if spent is None and turn.attempt <= 1 and self.compaction.is_due(messages):
            return await self.begin(turn, spent=await self.compaction.shrink(turn, told))
        memories_shown = memory_lines(state.memories, newest.text)
        block = self._block(turn, state, memories_shown, unread=unread, away=away)
        own = files.get(turn.message_id, MessageFiles())
        messages.append(_last(turn, newest, own, block))
        of_runs = [*state.active, *state.recent]
        summarised = not is_private(turn.place)
        others = any(
            item.author not in {"", turn.user.key} or (summarised and item.role == "summary")
            for item in past
        )
        return Beginning(
            messages=messages,
            away=away,
            others=others,
            granted=state.granted,
            spent=spent or Usage(),
            foreign=bool(files or state.earlier or state.waiting or state.asked or others)
            or any(item.foreign or item.run_id for item in (*past, newest))
            or any(run.metadata.get(FOREIGN) for run in of_runs),
            # Approved calls may hold material that the turn that asked had read.
            private=bool(files or memories_shown or turn.kind == "confirmed")
            or any(item.role == "summary" for item in past)
            or any(run.conversation_id != turn.conversation_id for run in of_runs)
            or any(_route(item.place) != _route(turn.place) for item in state.waiting),
        )

    async def preview(
        self, turn: Turn
    ) -> tuple[list[tuple[StoredMessage, list[Message]]], UserMessage]:
        """Return the stored history as a model would read it, and the turn's own block.

        Nothing is read from the platform, summarised or stored.
        """
        state = await self._state(turn)
        _, told = await self._shown(turn, state)
        block = self._block(turn, state, memory_lines(state.memories, ""))
        return told, UserMessage(block)

    async def _state(self, turn: Turn) -> "_State":
        """Return the stored state that a turn begins with."""
        async with self.database.snapshot() as tx:
            past, newest = await _read(tx, turn)
            spoken = [item.id for item in past if item.role == "user" and item.id != newest.id]
            room = int(self.settings().context_tokens * FILE_CHARACTERS_PER_TOKEN)
            sent = await foreign_content.read(tx, [*spoken, turn.message_id], room)
            answered = [item.turn_id for item in past if item.role == "assistant" and item.turn_id]
            made = await steps.load_many(tx, answered)
            here, earlier = turn.conversation_id, []
            if past and past[0].role == "summary":
                before = past[0].id
                earlier = await stored_files.summarised(tx, here, before, limit=EARLIER_FILES)
            scope = own_scope(Caller(user=turn.user, role=turn.role, place=turn.place))
            owner, read_in = scope.owner, scope.read_in
            active = await runs.active(tx, owner, read_in=read_in, limit=20)
            asked = await run_questions.open_of_many(tx, [run.id for run in active])
            since = self.now() - timedelta(minutes=RECENT_MINUTES)
            recent = await runs.ended_since(tx, owner, since, read_in=read_in, limit=RECENT)
            key = turn.user.key
            # Results that have reached no one yet.
            waiting = await outbox.undelivered(tx, key, read_in=read_in, limit=UNDELIVERED)
            todo_list = todos.list_of(turn.conversation_id, turn.user, shared=turn.shared)
            todo = await todos.read(tx, todo_list, key)
            return _State(
                past=past,
                newest=newest,
                sent=sent,
                made=made,
                earlier=earlier,
                active=active,
                asked=asked,
                recent=recent,
                waiting=waiting,
                memories=[] if turn.shared else await memories.MEMORIES.newest(tx, key),
                todo=todos.progress(todo) if todo else "",
                granted=frozenset(await grants.given(tx, key, self.now(), here)),
            )

    async def _shown(
        self, turn: Turn, state: "_State"
    ) -> tuple[Mapping[str, MessageFiles], list[tuple[StoredMessage, list[Message]]]]:
        """Return the files of messages, and the history, as a model reads them."""
        sent = state.sent
        files = await asyncio.to_thread(sent.for_model) if sent.by_message else {}
        of_place, zone = self.place_tools(), ZoneInfo(self.settings().timezone)
        shown = of_place if turn.shared else None
        results = {key: calls_of(key, rows, shown=shown) for key, rows in state.made.items()}
        summary = partial(shown_summary, sent=state.earlier, in_workspace="file_read" in of_place)
        known = authors(state.past)
        history: list[tuple[StoredMessage, list[Message]]] = []
        # A deleted message has no content. Providers require that a user begins.
        spoken = [
            item for item in state.past if item.text.strip() or item.quoted or item.id in files
        ]
        for item in dropwhile(lambda item: item.role == "assistant", spoken):
            own = files.get(item.id, MessageFiles())
            if item.role == "assistant":
                read: list[Message] = [*results.get(item.turn_id or "", ()), Answer(text=item.text)]
            elif item.role == "summary":
                read = [summary(item)]
            elif item.author_number:
                read = [UserMessage(attributed(item, known, zone, own.blocks), own.images)]
            else:
                text = own.blocks + foreign_content.with_quotes(item.text, item.quoted)
                read = [UserMessage(text, own.images)]
            history.append((item, read))
        return files, history

    def _block(
        self,
        turn: Turn,
        state: "_State",
        memories_shown: Sequence[str],
        *,
        unread: str = "",
        away: Sequence[str] = (),
    ) -> str:
        """Return the block that belongs to the turn alone."""
        return situation(
            head=self._head(turn, state, unread),
            active=[run_line(run, state.asked.get(run.id, "")) for run in state.active],
            recent=[run_line(run) for run in state.recent],
            undelivered=undelivered_lines(state.waiting),
            memories=memories_shown,
            todo=state.todo,
            away=away,
            last=f"You answer u{turn.number} now." if turn.shared else "",
        )

    def _head(self, turn: Turn, state: "_State", unread: str) -> str:
        """Return the first line of the situation: the time, and the users."""
        zone = self.settings().timezone
        time = f"Now: {self.now().astimezone(ZoneInfo(zone)):%A %d %B %Y, %H:%M} ({zone})."
        if turn.shared:
            return " ".join(filter(None, (time, SHARED.format(user=f"u{turn.number}"), unread)))
        name = escape_for_model(one_line(turn.user_name, 60))
        overheard = OVERHEARD if any(item.author_number for item in state.past) else ""
        return " ".join(filter(None, (time, f"You are talking with {name}.", overheard, unread)))

    async def _seen(self, turn: Turn) -> Turn:
        """Return a turn of a shared conversation with the newest message that it reads.

        A later attempt reads no more than the first.
        """
        if turn.seen_id:
            return turn
        async with self.database.transaction() as tx:
            seen = await history.newest_to_read(tx, turn.conversation_id, turn.message_id)
            await turns.see(tx, turn.id, seen)
        return replace(turn, seen_id=seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The stored state that a turn begins with.

    Attributes:
        past: The messages of the conversation.
        newest: The message that the turn answers.
        sent: The files of the messages.
        made: The steps of earlier turns.
        earlier: The files of the messages for which a summary stands.
        active: The user's active runs, with their open questions in `asked`.
        recent: The runs that ended a short while ago.
        waiting: The results that could not be delivered.
        memories: The user's memories; none in a shared conversation.
        todo: The progress of the to-do list.
        granted: The tools that the user has allowed.
    """

    past: list[StoredMessage]
    newest: StoredMessage
    sent: ConversationFiles
    made: Mapping[str, Sequence[tuple[int, str, Json]]]
    earlier: list[StoredFile]
    active: list[Run]
    asked: dict[str, str]
    recent: list[Run]
    waiting: list[OutboxEntry]
    memories: list[Memory]
    todo: str
    granted: frozenset[str]


async def _read(tx: Transaction, turn: Turn) -> tuple[list[StoredMessage], StoredMessage]:
    """Return the history of a turn, and the message that it answers.

    The history of a shared conversation includes that message.
    """
    newest = await conversations.get(tx, turn.message_id)
    if newest is None:
        newest = StoredMessage(
            id=turn.message_id, role="user", text="", run_id=None, created_at=turn.created_at
        )
    if turn.shared:
        seen = max(turn.seen_id, turn.message_id)
        past = await history.shared(tx, turn.conversation_id, until=seen, turn_id=turn.id)
        return past, newest
    return await history.personal(tx, turn.conversation_id, before=turn.message_id), newest


def _last(turn: Turn, newest: StoredMessage, own: MessageFiles, block: str) -> UserMessage:
    """Return the last message of the input: the situation, and in a personal one the message."""
    summary = SUMMARISE if turn.kind == "summary" else ""
    if turn.shared:
        return UserMessage(summary + block)
    text = summary + foreign_content.with_quotes(newest.text, newest.quoted)
    return UserMessage(block + own.blocks + text, own.images)


def _route(place: Place) -> Place:
    """Return a place without its message."""
    return replace(place, message="")
