"""Builds the input of the main agent for a turn: prompt, history, and state of the user's runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import dropwhile
from zoneinfo import ZoneInfo

from bot.agent.context import situation
from bot.agent.messages import Answer, Message, Usage, UserMessage, estimate_tokens
from bot.agent.sanitizer import escape_for_model, one_line
from bot.agent.settings import AgentSettings
from bot.conversations.access import is_private, own_scope
from bot.conversations.compaction import Compaction, shown_summary
from bot.conversations.model_texts import (
    OVERHEARD,
    SHARED,
    ConversationFiles,
    MessageFiles,
    attributed,
    memory_lines,
    name_of,
    read_files,
    run_line,
    undelivered_lines,
    with_quotes,
)
from bot.conversations.turn_messages import ThreadReader
from bot.conversations.turn_results import calls_of, for_place
from bot.subagents.requests import FOREIGN, Caller
from bot.values import Clock, Live, Place
from db import (
    conversations,
    grants,
    history,
    outbox,
    run_questions,
    runs,
    steps,
    todos,
    turn_context,
    user_texts,
)
from db import files as stored_files
from db.conversations import StoredMessage
from db.database import Database, Transaction
from db.files import StoredFile
from db.history import HistoryMessage
from db.outbox import OutboxEntry
from db.runs import Run
from db.turns import Turn
from db.user_texts import Memory
from skills.base import Tool

RECENT = 8
#: Most files named that were sent before a summary.
EARLIER_FILES = 50
RECENT_MINUTES = 30
#: Most earlier turns whose calls a process keeps.
MOST_MADE = 256
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
        made: The calls of earlier turns and their results, by the turn and its number of steps.
    """

    database: Database
    settings: Live[AgentSettings]
    servers_away: Callable[[], Awaitable[Sequence[str]]]
    place_tools: Callable[[], Mapping[str, Tool]]
    reader: ThreadReader
    compaction: Compaction
    now: Clock
    made: dict[tuple[str, int], Sequence[Message]] = field(default_factory=dict)

    async def begin(self, turn: Turn) -> Beginning:
        """Return the history and the newest message, with the state of the user's runs.

        The state is not stored in the history. In a personal conversation it precedes the newest
        message; in a shared one it is a message of its own behind the history. In a place with
        several readers it names only runs that all of them can read, and no memories. A summary
        has no tools of MCP servers, so its state names no servers. The first attempt summarises
        a history that is too long.
        """
        away = () if turn.kind == "summary" else tuple(await self.servers_away())
        unread = "" if is_private(turn.place) else await self.reader.read(turn)
        spent: Usage | None = None
        while True:
            state = await self._state(turn)
            files, told = await self._shown(turn, state)
            messages = [each for _, of_item in told for each in of_item]
            # A later attempt reads what the first one read.
            may_shrink = spent is None and turn.attempt <= 1
            if not may_shrink or estimate_tokens(messages) <= self.compaction.limit:
                break
            spent = await self.compaction.shrink(turn, told)
        past, newest = state.past, state.newest
        memories_shown = memory_lines(state.memories, newest.text)
        block = self._block(turn, state, memories_shown, unread=unread, away=away)
        summary = SUMMARISE if turn.kind == "summary" else ""
        if turn.shared:
            # The history has the message that is answered.
            messages.append(UserMessage(summary + block))
        else:
            own = files.get(turn.message_id, MessageFiles())
            text = summary + with_quotes(newest.text, newest.quoted)
            messages.append(UserMessage(block + own.blocks + text, own.images))
        of_runs = [*state.active, *state.recent]
        summarised = not is_private(turn.place)
        own_words = {"", turn.user.key}
        others = any(
            item.author not in own_words or (summarised and item.role == "summary") for item in past
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
        here, user, now = turn.conversation_id, turn.user, self.now()
        since = now - timedelta(minutes=RECENT_MINUTES)
        todo_list = todos.list_of(here, user, shared=turn.shared)
        scope = own_scope(Caller(user=user, role=turn.role, place=turn.place))
        owner, read_in = scope.owner, scope.read_in
        room = int(self.settings().context_tokens * FILE_CHARACTERS_PER_TOKEN)
        async with self.database.snapshot() as tx:
            past, newest, with_files = await _read(tx, turn)
            sent = await read_files(tx, with_files, room)
            earlier: list[StoredFile] = []
            if past and past[0].role == "summary":
                before = past[0].id
                earlier = await stored_files.summarised(tx, here, before, limit=EARLIER_FILES)
            there = await turn_context.concerns(
                tx, user.key, conversation_id=here, todo_list=todo_list, since=since, now=now
            )
            active: list[Run] = []
            recent: list[Run] = []
            waiting: list[OutboxEntry] = []
            if there.active:
                active = await runs.active(tx, owner, read_in=read_in, limit=20)
            if there.recent:
                recent = await runs.ended_since(tx, owner, since, read_in=read_in, limit=RECENT)
            if there.undelivered:
                # Results that have reached no one yet.
                limit = UNDELIVERED
                waiting = await outbox.undelivered(tx, user.key, read_in=read_in, limit=limit)
            remembered = there.memories and not turn.shared
            todo = await todos.read(tx, todo_list, user.key) if there.todo else []
            return _State(
                past=past,
                newest=newest,
                sent=sent,
                made=await self._made(tx, past),
                earlier=earlier,
                active=active,
                asked=await run_questions.open_of_many(tx, [run.id for run in active]),
                recent=recent,
                waiting=waiting,
                memories=await user_texts.MEMORIES.newest(tx, user.key) if remembered else [],
                todo=todos.progress(todo) if todo else "",
                granted=frozenset(
                    await grants.given(tx, user.key, now, here) if there.grants else ()
                ),
            )

    async def _made(
        self, tx: Transaction, past: Sequence[HistoryMessage]
    ) -> Mapping[str, Sequence[Message]]:
        """Return the calls of earlier turns and their results, by the ids of the turns."""
        # The only step of a turn without calls is its answer.
        wanted = {
            (item.turn_id, item.steps)
            for item in past
            if item.role == "assistant" and item.turn_id and item.steps > 1
        }
        # The steps of a turn that is over stay as they are until they are deleted.
        missing = {turn_id: count for turn_id, count in wanted if (turn_id, count) not in self.made}
        if missing:
            if len(self.made) + len(missing) > MOST_MADE:
                self.made.clear()
            for turn_id, rows in (await steps.load_many(tx, list(missing))).items():
                self.made[turn_id, missing[turn_id]] = calls_of(turn_id, rows)
        return {turn_id: self.made.get((turn_id, count), ()) for turn_id, count in wanted}

    async def _shown(
        self, turn: Turn, state: "_State"
    ) -> tuple[Mapping[str, MessageFiles], list[tuple[StoredMessage, list[Message]]]]:
        """Return the files of messages, and the history, as a model reads them."""
        sent = state.sent
        files = await asyncio.to_thread(sent.for_model) if sent.by_message else {}
        of_place, zone = self.place_tools(), ZoneInfo(self.settings().timezone)
        results = state.made
        if turn.shared:
            results = {key: for_place(made, of_place) for key, made in results.items()}
        summary = partial(shown_summary, sent=state.earlier, in_workspace="file_read" in of_place)
        known = {each.reference: name_of(each) for each in state.past if each.reference}
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
                text = own.blocks + with_quotes(item.text, item.quoted)
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
        """Return the block that belongs to the turn alone: the time, the users, and their state."""
        zone = self.settings().timezone
        head = [f"Now: {self.now().astimezone(ZoneInfo(zone)):%A %d %B %Y, %H:%M} ({zone})."]
        if turn.shared:
            head.append(SHARED.format(user=f"u{turn.number}"))
        else:
            head.append(f"You are talking with {escape_for_model(one_line(turn.user_name, 60))}.")
            if any(item.author_number for item in state.past):
                head.append(OVERHEARD)
        return situation(
            head=" ".join(filter(None, (*head, unread))),
            active=[run_line(run, state.asked.get(run.id, "")) for run in state.active],
            recent=[run_line(run) for run in state.recent],
            undelivered=undelivered_lines(state.waiting),
            memories=memories_shown,
            todo=state.todo,
            away=away,
            last=f"You answer u{turn.number} now." if turn.shared else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The stored state that a turn begins with.

    Attributes:
        past: The messages of the conversation.
        newest: The message that the turn answers.
        sent: The files of the messages.
        made: The calls of earlier turns and their results, by the ids of the turns.
        earlier: The files of the messages for which a summary stands.
        active: The user's active runs, with their open questions in `asked`.
        recent: The runs that ended a short while ago.
        waiting: The results that could not be delivered.
        memories: The user's memories; none in a shared conversation.
        todo: The progress of the to-do list.
        granted: The tools that the user has allowed.
    """

    past: list[HistoryMessage]
    newest: StoredMessage
    sent: ConversationFiles
    made: Mapping[str, Sequence[Message]]
    earlier: list[StoredFile]
    active: list[Run]
    asked: dict[str, str]
    recent: list[Run]
    waiting: list[OutboxEntry]
    memories: list[Memory]
    todo: str
    granted: frozenset[str]


async def _read(
    tx: Transaction, turn: Turn
) -> tuple[list[HistoryMessage], StoredMessage, list[str]]:
    """Return the history of a turn, the message that it answers, and the messages with files.

    The history of a shared conversation includes that message. It is the last of those that are
    returned as ones with files, if there are any.
    """
    if turn.shared:
        seen = max(turn.seen_id, turn.message_id)
        past = await history.shared(tx, turn.conversation_id, until=seen, turn_id=turn.id)
    else:
        past = await history.personal(tx, turn.conversation_id, until=turn.message_id)
    own = next((each for each in past if each.id == turn.message_id), None)
    with_files = [each.id for each in past if each.has_files and each.role == "user"]
    if with_files or own is None:
        with_files = [each for each in with_files if each != turn.message_id] + [turn.message_id]
    if own is not None:
        if not turn.shared and own.role == "user":
            past.remove(own)
        return past, own, with_files
    newest = await conversations.get(tx, turn.message_id)
    if newest is None:
        newest = StoredMessage(
            id=turn.message_id, role="user", text="", run_id=None, created_at=turn.created_at
        )
    return past, newest, with_files


def _route(place: Place) -> Place:
    """Return a place without its message."""
    return replace(place, message="")
