"""Posts, edits, streams and deletes messages on Slack, and classifies the errors."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.agent.sanitizer import LARGE
from bot.errors import DeliveryError
from bot.platforms.messaging.pacing import Queues
from bot.platforms.messaging.splitting import MessageParts
from bot.platforms.slack import blocks, problems, texts
from bot.platforms.slack.clients import Clients, team_of
from bot.platforms.slack.problems import RefusedError, made
from bot.values import Identity, Json, Place

log = logging.getLogger(__name__)

#: Backoff before each further attempt to send a message that follows others of the same text.
PAUSES = (2.0, 5.0)
#: Longest pause of edits that a rate-limit answer causes, in seconds; then an edit is tried again.
LONGEST_REST_SECONDS = 60.0
#: Longest wait of a final text for its edit, in seconds; then it is posted as a new message.
FINAL_REST_SECONDS = 5.0

#: A method of the Web API, such as `AsyncWebClient.chat_update`.
Method = Callable[..., Awaitable[AsyncSlackResponse]]

USUAL = texts.CommandNames()

#: Slack must not turn names and addresses in a text into mentions and links.
_UNPARSED = {"parse": "none", "link_names": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The content of a message to be posted or edited, already escaped.

    Attributes:
        markdown: The text.
        blocks: The blocks of a message that is more than a text.
        mrkdwn: The text of a message with blocks: for notifications, and if Slack refuses the
            blocks.
    """

    markdown: str = ""
    blocks: tuple[Json, ...] = ()
    mrkdwn: str = ""

    def content(self) -> dict[str, Any]:
        """Return the content arguments of a request; Slack does not parse names or links."""
        if not self.blocks:
            return {"markdown_text": self.markdown, **_UNPARSED}
        return {"blocks": list(self.blocks), **self.plain()}

    def plain(self) -> dict[str, Any]:
        """Return the content without blocks and Markdown, which Slack always accepts."""
        return {"text": self.mrkdwn or self.markdown, **_UNPARSED}


def framed(markdown: str, *, head: str = "", tail: str = "", below: tuple[Json, ...] = ()) -> Draft:
    """Return a text with a head above it, and a tail and blocks below it, all already escaped.

    Args:
        markdown: The text.
        head: The text above, in mrkdwn; empty for none.
        tail: The text below, in mrkdwn; empty for none.
        below: The blocks below.
    """
    if not (head or tail or below):
        return Draft(markdown=markdown)
    shown: list[Json] = [blocks.section(head)] if head else []
    shown.append({"type": "markdown", "text": markdown})
    shown += [blocks.quiet(tail)] if tail else []
    lines = "\n".join(part for part in (head, markdown, tail) if part)
    return Draft(blocks=(*shown, *below), mrkdwn=lines)


@dataclass(eq=False, slots=True)
class Sender:
    """Sends messages over the Web API; it needs no events and no cache.

    Attributes:
        clients: Provide the tokens.
        commands: The names of the slash commands, for texts that name them.
        pauses: Backoff before each further attempt to send a message that follows a first one.
        monotonic: A monotonic clock in seconds.
    """

    clients: Clients
    _: KW_ONLY
    commands: texts.CommandNames = USUAL
    pauses: tuple[float, ...] = PAUSES
    monotonic: Callable[[], float] = time.monotonic
    _rests: dict[str, float] = field(default_factory=dict)
    #: Posts the messages of one thread or channel one after another, in their order.
    _posting: Queues = field(default_factory=Queues)

    async def ask(self, workspace: str, method: Method, **arguments: Any) -> AsyncSlackResponse:
        """Call a method of the Web API with the token of a workspace.

        Raises:
            RefusedError: Slack refuses the request permanently.
            DeliveryError: The request failed and may succeed later.
        """
        _, installed = await self.clients.find(workspace)
        arguments = self.commands.shown(arguments)
        try:
            return await made(method(installed.client, **arguments))
        except RefusedError as error:
            # The bot may have been reinstalled with another token.
            fresh = await self.clients.fresh(workspace, installed) if error.token_refused else None
            if fresh is None:
                raise
        return await made(method(fresh.client, **arguments))

    async def pages(
        self, workspace: str, method: Method, name: str, *, most: int, **arguments: Any
    ) -> AsyncIterator[tuple[list[Any], bool]]:
        """Yield the pages of a list, each with whether another one follows.

        Args:
            workspace: The workspace.
            method: A method of the Web API that takes a cursor.
            name: The field of the answer that has the items.
            most: The most pages.
            arguments: The further arguments of the method.

        Raises:
            RefusedError: Slack refuses the request permanently.
            DeliveryError: The request failed and may succeed later.
        """
        cursor = None
        for _ in range(most):
            answer = await self.ask(workspace, method, cursor=cursor, **arguments)
            cursor = (answer.get("response_metadata") or {}).get("next_cursor")
            yield list(answer.get(name) or ()), bool(cursor)
            if not cursor:
                return

    async def _send(
        self, place: Place, draft: Draft, method: Method, **where: object
    ) -> AsyncSlackResponse:
        """Send a draft to the channel of a place, in its plain form if Slack refuses the content.

        Args:
            place: The place.
            draft: The content of the message.
            method: Sends the message.
            where: The further arguments of the method.
        """
        where |= {"channel": place.channel}
        try:
            return await self.ask(place.workspace, method, **where, **draft.content())
        except RefusedError as error:
            if error.code not in problems.CONTENT:
                raise
            log.warning(
                "Slack does not take a message as it is (%s); it goes out plain", error.code
            )
        return await self.ask(place.workspace, method, **where, **draft.plain())

    async def post(self, place: Place, draft: Draft) -> str:
        """Post a message in the thread of a place, or in its channel; return its id.

        Raises:
            RefusedError: Slack refuses the message in this place.
            DeliveryError: The message cannot be sent now, or its fate is unknown.
        """
        async with self._posting.lock(thread_of(place)):
            answer = await self._send(
                place,
                draft,
                AsyncWebClient.chat_postMessage,
                thread_ts=place.thread or None,
                unfurl_links=False,
                unfurl_media=False,
            )
        return str(answer["ts"])

    async def edit(
        self, place: Place, message_id: str, draft: Draft, *, final: bool = False
    ) -> None:
        """Edit a message of ours.

        Args:
            place: The place of the message.
            message_id: The id of the message.
            draft: The new content.
            final: Fail instead of waiting longer than `FINAL_REST_SECONDS` for the rate limit.

        Raises:
            RefusedError: The message is gone or cannot be edited.
            DeliveryError: The message cannot be edited now.
        """
        # Wait until Slack's rate limit allows edits in the workspace.
        left = self._rests.get(place.workspace, 0.0) - self.monotonic()
        if final and left > FINAL_REST_SECONDS:
            raise DeliveryError(problems.BUSY, retry_after_seconds=left)
        if left > 0:
            await asyncio.sleep(left)
        try:
            await self._send(place, draft, AsyncWebClient.chat_update, ts=message_id)
        except DeliveryError as error:
            if error.retry_after_seconds:
                until = self.monotonic() + min(error.retry_after_seconds, LONGEST_REST_SECONDS)
                self._rests[place.workspace] = until
            raise

    async def whisper(self, place: Place, account: str, draft: Draft) -> None:
        """Show an ephemeral message to one user in a place.

        Raises:
            RefusedError: Slack refuses the message in this place.
            DeliveryError: The message cannot be sent now.
        """
        await self._send(
            place,
            draft,
            AsyncWebClient.chat_postEphemeral,
            user=account,
            thread_ts=place.thread or None,
        )

    async def post_all(
        self,
        place: Place,
        parts: MessageParts,
        *,
        head: str = "",
        tail: str = "",
        below: tuple[Json, ...] = (),
    ) -> tuple[str, ...]:
        """Post a text of any length, with a head, a tail and blocks below; return the ids.

        Raises:
            RefusedError: Slack refuses the first part in this place.
            DeliveryError: A part was not accepted, or its fate is unknown.
        """
        first, *rest = parts.texts
        if parts.long or not rest:
            message = await self.post(place, framed(first, head=head, tail=tail, below=below))
            return (message, *(await self.post_rest(place, parts)))
        ids = [await self.post(place, framed(first, head=head))]
        for draft in (*map(framed, rest[:-1]), framed(rest[-1], tail=tail, below=below)):
            ids += [await self.post_next(place, draft)]
        return tuple(ids)

    async def post_rest(self, place: Place, parts: MessageParts) -> tuple[str, ...]:
        """Post all parts of a text but the first: as messages, or as a file if they are too many.

        Raises:
            DeliveryError: A part was not accepted. The fate of the whole text is then unknown,
                since its first part is posted already.
        """
        if parts.long:
            try:
                await self.ask(
                    place.workspace,
                    AsyncWebClient.files_upload_v2,
                    content=parts.whole,
                    filename=parts.name,
                    title=parts.name,
                    snippet_type="markdown",
                    channel=place.channel,
                    thread_ts=place.thread or None,
                    initial_comment=texts.IN_FILE,
                )
            except DeliveryError as error:
                log.info("A text goes out in messages, since a file does not: %s", error)
            else:
                return ()
        return tuple(
            [await self.post_next(place, Draft(markdown=part)) for part in parts.texts[1:]]
        )

    async def post_next(self, place: Place, draft: Draft) -> str:
        """Post a message that continues an earlier message; return its id.

        Raises:
            DeliveryError: The message was not accepted. The fate of the whole text is then unknown,
                since its first part is posted already.
        """
        try:
            for pause in self.pauses:
                try:
                    return await self.post(place, draft)
                except DeliveryError as error:
                    if error.permanent or error.fate_unknown:
                        raise
                    log.info("The rest of a message is tried again: %s", error)
                await asyncio.sleep(pause)
            return await self.post(place, draft)
        except DeliveryError as error:
            raise DeliveryError(str(error), fate_unknown=True) from error

    async def react(self, place: Place, name: str, *, away: bool = False) -> None:
        """Add a reaction to the message of a place, or remove our own reaction.

        Raises:
            DeliveryError: The reaction could not be added or removed.
        """
        change: Method = AsyncWebClient.reactions_remove if away else AsyncWebClient.reactions_add
        await self.ask(
            place.workspace, change, channel=place.channel, timestamp=place.message, name=name
        )

    async def direct(self, workspace: str, account: str) -> Place:
        """Return the place of the direct messages with a user.

        Raises:
            RefusedError: Slack refuses direct messages with that user.
            DeliveryError: The place cannot be looked up now.
        """
        answer = await self.ask(workspace, AsyncWebClient.conversations_open, users=account)
        channel: Json = answer["channel"]
        return Place("slack", workspace, str(channel["id"]))

    # -- streams ---------------------------------------------------------------------------------

    async def start_stream(self, place: Place, owner: Identity, markdown: str) -> str:
        """Start a streamed message in the thread of a place; return its id.

        Raises:
            RefusedError: Slack refuses streams to this app or in this place.
            DeliveryError: The stream cannot be started now, or its fate is unknown.
        """
        home = owner.workspace if owner.workspace.startswith("T") else team_of(place.workspace)
        async with self._posting.lock(thread_of(place)):
            answer = await self.ask(
                place.workspace,
                AsyncWebClient.chat_startStream,
                channel=place.channel,
                thread_ts=place.thread,
                markdown_text=markdown,
                recipient_team_id=home,
                recipient_user_id=owner.account,
            )
        return str(answer["ts"])


def thread_of(place: Place) -> Place:
    """Return the place without its message: the same for all messages of a thread."""
    return replace(place, message="")


async def made_harmless(text: str, *, links: bool = True, growing: bool = False) -> str:
    """Return Markdown escaped for Slack. A long text is processed in a thread.

    Args:
        text: Markdown.
        links: Labels may hide addresses; `False` if every address has to be visible.
        growing: More of the text follows.
    """
    made = partial(texts.harmless, text, links=links, growing=growing)
    return await asyncio.to_thread(made) if len(text) > LARGE else made()
