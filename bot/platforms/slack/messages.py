"""Reads Slack's messages: their markup as plain text, their files, and the history of a place.

Slack escapes `&`, `<` and `>` in typed text, and puts recognised parts between `<` and `>`: see
"Formatting text for app surfaces" in its documentation.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.agent.sanitizer import one_line
from bot.platforms.messages import Attachment, PastMessage, Quoted
from bot.platforms.messaging.attachments import FileHost
from bot.platforms.messaging.intake import message_key
from bot.platforms.messaging.texts import short_answer
from bot.platforms.slack.clients import Clients, Installed
from bot.platforms.slack.people import Names, author_of
from bot.platforms.slack.sending import Method, Sender
from bot.platforms.slack.settings import API_URL
from bot.values import Json, Place

_MARKUP = re.compile(r"<([^<>\n]*)>")
#: The subtypes of messages by users, with "" for no subtype.
_SAID = frozenset({"", "file_share", "thread_broadcast", "me_message"})
#: Slack's own account, which writes to bots like a user, for instance after a removal from a
#: channel.
_SLACKBOT = "USLACKBOT"
_ALL_THERE = frozenset({"here", "channel", "everyone"})
#: The fields of an attachment with written text.
_WRITTEN = ("pretext", "author_name", "title", "text", "footer")
_COMMAND = re.compile(r"[/!]\w|subagents?\b", re.IGNORECASE)

HOSTS = frozenset({"files.slack.com"})
NO_SCOPE = (
    "Send what matters as text, or ask the people who run me to give me the scope files:read."
)
#: The access state of a file in a payload that contains only its id: `files.info` has the rest.
_ASK = "check_file_info"

_EMOJIS = {
    "white_check_mark": "✅",
    "x": "❌",
    "+1": "👍",
    "thumbsup": "👍",
    "-1": "👎",
    "thumbsdown": "👎",
}

#: Longest permission to search that is stored, in characters.
MOST_TOKEN = 500
#: Most messages in one request, and most pages of one place.
PAGE, MAX_PAGES = 200, 5


# --- markup -------------------------------------------------------------------------------------


def is_from_user(event: Json) -> bool:
    """Return True for a new message by a user: no bot, not Slack itself, no edit or deletion."""
    said = str(event.get("subtype") or "") in _SAID and not event.get("hidden")
    somebody = str(event.get("user") or "") not in {"", _SLACKBOT}
    return said and somebody and not event.get("bot_id")


def is_from_bot(event: Json, me: Installed) -> bool:
    """Return True for a new message by another bot or app."""
    said = str(event.get("subtype") or "") in {*_SAID, "bot_message"} and not event.get("hidden")
    own = event.get("bot_id") == me.bot or event.get("user") == me.user
    return said and bool(event.get("bot_id")) and not own


def search_token_of(event: Json) -> str:
    """Return the permission to search for the author of a message; empty for none.

    Slack's documentation has it in the event; events of agents have it one level below.
    """
    below = event.get("assistant_thread")
    inner = below.get("action_token") if isinstance(below, dict) else None
    token = str(event.get("action_token") or inner or "")
    return token if len(token) <= MOST_TOKEN else ""


def bot_name(event: Json) -> str:
    """Return the name under which another bot writes: free text, and no identity."""
    profile: Json = event.get("bot_profile") or {}
    return str(event.get("username") or profile.get("name") or "")


def changed_in(event: Json) -> tuple[str, str | None] | None:
    """Return the id and the new text of a message that was edited; for a deletion no text."""
    match event.get("subtype"):
        case "message_deleted":
            return str(event.get("deleted_ts") or ""), None
        case "message_changed":
            message: Json = event.get("message") or {}
            ts, gone = str(message.get("ts") or ""), message.get("subtype") == "tombstone"
            # Without an edit, Slack has added the preview of a link, for instance.
            if gone or "edited" in message:
                return ts, None if gone else str(message.get("text") or "")
    return None


def mentions(text: str, account: str) -> bool:
    """Return True if a text with Slack's markup mentions an account."""
    return re.search(rf"<@{re.escape(account)}(\|[^<>]*)?>", text) is not None


def is_for_us(text: str) -> bool:
    """Return True if a text is a command with a name of this bot."""
    return re.match(r"\s*!(subagents?|retinue)\b", text, re.IGNORECASE) is not None


def bypasses_queue(spoken_text: str) -> bool:
    """Return True for commands and one-word answers, which do not wait for earlier messages."""
    return bool(_COMMAND.match(spoken_text) or short_answer(spoken_text))


def mentions_another(text: str, me: str) -> bool:
    """Return True if a text with Slack's markup mentions anybody but the bot."""
    accounts = set(re.findall(r"<@([UW][A-Z0-9]+)", text))
    return (
        bool(accounts - {me}) or re.search(r"<!(?:subteam|here|channel|everyone)", text) is not None
    )


def spoken(text: str, me: str) -> str:
    """Return a message as plain text, without mentions of the bot at its beginning and end.

    Args:
        text: The text with Slack's markup.
        me: The bot's account.
    """
    name = rf"<@{re.escape(me)}(?:\|[^<>]*)?>"
    text = re.sub(rf"\A\s*(?:{name}[\s,:]*)+", "", text)
    # A `\Z` in the pattern would take seconds for a text full of mentions or white space.
    text = re.sub(
        rf"(?:{name}\s*)+", lambda names: "" if names.end() == len(text) else names[0], text
    )
    text = _MARKUP.sub(lambda match: _meant(match[1]), text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def quoted_in(event: Json, me: str) -> tuple[Quoted, ...]:
    """Return the content of a message by other authors: shared messages, link previews."""
    found = []
    for each in event.get("attachments") or ():
        shared = each.get("is_share") or each.get("is_msg_unfurl")
        texts = [str(each.get(key) or "") for key in _WRITTEN]
        texts = texts if any(texts) else [str(each.get("fallback") or "")]
        fields = [
            f"{field.get('title') or ''}: {field.get('value') or ''}"
            for field in each.get("fields") or ()
        ]
        text = spoken("\n".join(part for part in [*texts, *fields] if part), me)
        if text:
            found.append(Quoted("shared" if shared else "link_preview", text))
    return tuple(found)


def _meant(markup: str) -> str:
    """Return the visible text of a piece of markup, still escaped."""
    target, _, label = markup.partition("|")
    sign, name = target[:1], target[1:]
    if sign == "@":
        return f"@{label.removeprefix('@') or name}"
    if sign == "#":
        return f"#{label or name}"
    if sign == "!":
        # A special mention, a group or a date.
        kind, _, rest = name.partition("^")
        if kind in _ALL_THERE:
            return f"@{kind}"
        return label or f"@{rest if kind == 'subteam' else kind}"
    address = target.removeprefix("mailto:").removeprefix("tel:")
    return f"{label} ({address})" if label and label not in address else address


# --- files --------------------------------------------------------------------------------------


def store(api_url: str) -> FileHost:
    """Return Slack's file storage.

    Args:
        api_url: The address of the Web API; a stand-in for the API may serve files too.
    """
    stand_in = "" if api_url == API_URL else api_url
    return FileHost(name="Slack", hosts=HOSTS, stand_in=stand_in, refused=NO_SCOPE)


def _name(file: Json) -> str:
    return one_line(str(file.get("name") or file.get("title") or "")) or "file"


# --- places -------------------------------------------------------------------------------------


class History:
    """Reads places and files with the token of their workspace.

    Args:
        clients: Provide the bot's identity in a workspace.
        sender: Makes requests.
        names: Provide the names of users.
        api_url: The address of the Web API.
    """

    def __init__(self, clients: Clients, sender: Sender, names: Names, api_url: str) -> None:
        self._clients = clients
        self._sender = sender
        self._names = names
        self._store = store(api_url)

    def files(self, files: Iterable[Json], workspace: str) -> tuple[Attachment, ...]:
        """Return the files of a message without fetching them.

        Args:
            files: The file objects of Slack's payload.
            workspace: The workspace of the bot.
        """
        return tuple(
            Attachment(
                name=_name(file),
                media_type=str(file.get("mimetype") or ""),
                size=int(file.get("size") or 0),
                read=partial(self._read_file, file, workspace),
            )
            for file in files
        )

    async def _read_file(self, file: Json, workspace: str) -> bytes:
        _, installed = await self._clients.find(workspace)
        if file.get("file_access") == _ASK:
            answer = await self._sender.ask(
                workspace, AsyncWebClient.files_info, file=str(file["id"])
            )
            file = dict(answer["file"])
        address = str(file.get("url_private_download") or file.get("url_private") or "")
        headers = {"Authorization": f"Bearer {installed.token}"}
        return await self._store.fetch(address, _name(file), headers=headers)

    async def read(
        self, place: Place, after: datetime | str, limit: int, *, opening: bool = False
    ) -> list[PastMessage]:
        """Return the newest messages after a given time or message, oldest first.

        Args:
            place: The channel or thread.
            after: The time or the message.
            limit: The most messages to return.
            opening: Whether to include, besides these, the message that opened a thread.

        Raises:
            DeliveryError: The messages cannot be read.
        """
        _, installed = await self._clients.find(place.workspace)
        oldest = f"{after.timestamp():.6f}" if isinstance(after, datetime) else after
        found = await self._messages(place, enough=limit, oldest=oldest or None)
        # Slack returns a thread with its first message, regardless of `oldest`.
        new = [each for each in found if not oldest or float(each["ts"]) > float(oldest)]
        read = new[-limit:]
        if opening and place.thread:
            first = (each for each in found if each["ts"] == place.thread and each not in read)
            read = [*first, *read]
        return [await self._past(each, place, installed) for each in read]

    async def around(self, place: Place, message: str, limit: int) -> list[PastMessage]:
        """Return a message with those around it in its thread, or with those before it.

        Args:
            place: The channel of the message, and its thread if that is known.
            message: The id of the message.
            limit: The most messages.

        Raises:
            DeliveryError: The messages cannot be read.
        """
        _, installed = await self._clients.find(place.workspace)
        there = replace(place, thread=place.thread or message)
        found = await self._messages(there)
        if len(found) == 1 and not place.thread:
            there = place
            found = await self._messages(
                there, enough=limit, limit=min(limit, PAGE), latest=message, inclusive=True
            )
        index = next((at for at, each in enumerate(found) if each["ts"] == message), 0)
        start = max(0, min(index - limit // 2, len(found) - limit))
        return [await self._past(each, there, installed) for each in found[start : start + limit]]

    async def _messages(
        self, place: Place, *, enough: float = inf, limit: int = PAGE, **asked: Any
    ) -> list[Json]:
        """Return the messages of a thread or a channel, oldest first, without deleted ones.

        Args:
            place: The thread, or the channel without its threads.
            enough: The number of messages of a channel after which no further page is read.
            limit: The most messages in one page.
            asked: Further arguments of the request.

        Raises:
            DeliveryError: The messages cannot be read.
        """
        method: Method = AsyncWebClient.conversations_history
        if place.thread:
            method, asked["ts"] = AsyncWebClient.conversations_replies, place.thread
        asked |= {"channel": place.channel, "limit": limit}
        found: list[Json] = []
        pages = self._sender.pages(place.workspace, method, "messages", most=MAX_PAGES, **asked)
        async for page, _ in pages:
            found += page
            # Slack returns a channel newest first and a thread oldest first: the last page of a
            # thread contains its newest messages.
            if not place.thread and len(found) >= enough:
                break
        # A deleted message with replies stays in its place without content.
        standing = [each for each in found if each.get("subtype") != "tombstone"]
        return sorted(standing, key=lambda each: float(each["ts"]))

    async def _past(self, message: Json, place: Place, installed: Installed) -> PastMessage:
        ts, text = str(message["ts"]), str(message.get("text") or "")
        thread = place.thread or str(message.get("thread_ts") or "") or ts
        own = str(message.get("user") or "") == installed.user or (
            bool(installed.bot) and message.get("bot_id") == installed.bot
        )
        by_bot = own or not is_from_user(message)
        author = author_of(message, place.workspace, installed.enterprise)
        direct = place.channel.startswith("D")
        said, mentioned = spoken(text, installed.user), mentions(text, installed.user)
        # Users who gave each reaction, whatever the tone of the skin.
        reactions: dict[str, int] = {}
        for each in message.get("reactions") or ():
            if emoji := _EMOJIS.get(str(each.get("name")).partition("::")[0]):
                reactions[emoji] = reactions.get(emoji, 0) + int(each.get("count") or 0)
        return PastMessage(
            event_id=message_key(place.workspace, place.channel, ts),
            place=author.place(place.channel, thread, ts),
            author=author.identity,
            author_name="" if by_bot else await self._names.of(author),
            text=said,
            sent_at=datetime.fromtimestamp(float(ts), UTC),
            by_bot=by_bot,
            own=own,
            addressed=direct or mentioned or is_for_us(text),
            only_mention=mentioned and not said,
            edited="edited" in message,
            files=self.files(message.get("files") or (), place.workspace),
            quoted=quoted_in(message, installed.user),
            reactions=reactions,
        )
