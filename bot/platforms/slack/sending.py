"""Messages on their way to Slack: posted, edited, deleted; what goes wrong is told apart."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.agent.sanitizer import LARGE
from bot.errors import DeliveryError
from bot.platforms.pacing import Queues
from bot.platforms.paper import Paper
from bot.platforms.slack import problems, texts
from bot.platforms.slack.clients import Clients, team_of
from bot.platforms.slack.problems import RefusedError, problem_of
from bot.values import Identity, Json, Place

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How long to wait before each further attempt at a message that follows others of the same text.
PAUSES = (2.0, 5.0)
#: The longest that edits are left off since Slack says so; then it is asked again.
LONGEST_REST_SECONDS = 60.0
#: A final text does not wait longer for its edit: it is posted as a new message.
FINAL_REST_SECONDS = 5.0

Request = Callable[[AsyncWebClient], Awaitable[AsyncSlackResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A message to be posted or edited; all of it is harmless already.

    Attributes:
        markdown: What it says.
        blocks: How it says that, when there is more to it than a text.
        mrkdwn: The same in plain words, with blocks: for notifications, and for when Slack does not
            take the blocks.
    """

    markdown: str = ""
    blocks: tuple[Json, ...] = ()
    mrkdwn: str = ""

    def content(self) -> dict[str, Any]:
        """Return the arguments of a request that say what it shows: nothing in it is guessed at."""
        shown: dict[str, Any] = (
            {"blocks": list(self.blocks), "text": self.mrkdwn or self.markdown}
            if self.blocks
            else {"markdown_text": self.markdown}
        )
        return shown | {"parse": "none", "link_names": False}

    def plain(self) -> dict[str, Any]:
        """Return the same without blocks and without Markdown: Slack always takes that."""
        return {
            "text": self.mrkdwn or self.markdown,
            "parse": "none",
            "link_names": False,
        }


class Sender:
    """Sends messages over the Web API; it needs no events and no cache.

    Args:
        clients: Know with which token.
        pauses: How long to wait before each further attempt at what follows a first message.
        monotonic: A clock in seconds that never goes back.
    """

    def __init__(
        self,
        clients: Clients,
        *,
        pauses: tuple[float, ...] = PAUSES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._pauses = pauses
        self._now = monotonic
        self._rests: dict[str, float] = {}
        #: Messages of one thread or channel are posted one after another: they keep their order.
        self._posting = Queues()

    async def ask(self, workspace: str, request: Request) -> AsyncSlackResponse:
        """Make a request with the token of a workspace.

        Raises:
            RefusedError: Slack does not do that.
            DeliveryError: Not now.
        """
        client = await self._clients.client_for(workspace)
        try:
            return await _made(request, client)
        except RefusedError as error:
            # The bot may have been installed anew, with another token.
            fresh = await self._clients.fresh(workspace, client) if error.token_refused else None
            if fresh is None:
                raise
        return await _made(request, fresh)

    async def post(self, place: Place, draft: Draft) -> str:
        """Post a message in the thread of a place, or in its channel; return its id.

        Raises:
            RefusedError: Not here.
            DeliveryError: Not now; or its fate is unknown.
        """

        async def post(content: dict[str, Any]) -> str:
            return await self._begin(
                place,
                lambda client: client.chat_postMessage(
                    channel=place.channel,
                    thread_ts=place.thread or None,
                    unfurl_links=False,
                    unfurl_media=False,
                    **content,
                ),
            )

        return await self._with_either(draft, post)

    async def _begin(self, place: Place, request: Request) -> str:
        """Make a request for a new message in a place, after those before; return its id."""
        key = (place.workspace, place.channel, place.thread)
        async with self._posting.turn(key):
            answer = await self.ask(place.workspace, request)
        return str(answer["ts"])

    async def edit(
        self, place: Place, message_id: str, draft: Draft, *, final: bool = False
    ) -> None:
        """Change a message of ours.

        Args:
            place: Where it is.
            message_id: Which.
            draft: What it shows from then on.
            final: Fail instead of waiting longer than `FINAL_REST_SECONDS` for the rate limit.

        Raises:
            RefusedError: It is gone, or cannot be edited.
            DeliveryError: Not now.
        """

        async def edit(content: dict[str, Any]) -> None:
            await self._after_the_rest(place.workspace, final=final)
            await self.ask(
                place.workspace,
                lambda client: client.chat_update(channel=place.channel, ts=message_id, **content),
            )

        try:
            await self._with_either(draft, edit)
        except DeliveryError as error:
            if error.retry_after_seconds:
                until = self._now() + min(error.retry_after_seconds, LONGEST_REST_SECONDS)
                self._rests[place.workspace] = until
            raise

    async def _after_the_rest(self, workspace: str, *, final: bool) -> None:
        """Wait for as long as Slack wants no edits there."""
        left = self._rests.get(workspace, 0.0) - self._now()
        if final and left > FINAL_REST_SECONDS:
            raise DeliveryError(problems.BUSY, retry_after_seconds=left)
        if left > 0:
            await asyncio.sleep(left)

    async def text_of(self, place: Place, message_id: str) -> str:
        """Return the text that a message of ours shows.

        Raises:
            DeliveryError: It cannot be read.
        """
        response = await self.ask(
            place.workspace,
            lambda client: client.conversations_replies(
                channel=place.channel,
                ts=place.thread or message_id,
                oldest=message_id,
                latest=message_id,
                inclusive=True,
            ),
        )
        found = [each for each in response.get("messages") or () if each.get("ts") == message_id]
        return str(found[0].get("text") or "") if found else ""

    async def whisper(self, place: Place, account: str, draft: Draft) -> None:
        """Show a message to one person in a place, until they look elsewhere.

        Raises:
            RefusedError: Not here.
            DeliveryError: Not now.
        """

        async def whisper(content: dict[str, Any]) -> None:
            await self.ask(
                place.workspace,
                lambda client: client.chat_postEphemeral(
                    channel=place.channel,
                    user=account,
                    thread_ts=place.thread or None,
                    **content,
                ),
            )

        await self._with_either(draft, whisper)

    async def post_rest(self, place: Place, paper: Paper) -> tuple[str, ...]:
        """Post all of a paper but its first part: as messages, or a file if these are too many.

        Raises:
            DeliveryError: Some of it was not taken. Its beginning is there already, so this is
                always a text whose fate is unknown.
        """
        if paper.long and await self._upload(place, paper):
            return ()
        return tuple(
            [await self.post_next(place, Draft(markdown=part)) for part in paper.parts[1:]]
        )

    async def post_next(self, place: Place, draft: Draft) -> str:
        """Post a message that goes on with what the one before has begun; return its id.

        Raises:
            DeliveryError: It was not taken; since the beginning was, the fate of the whole is
                unknown.
        """
        for pause in self._pauses:
            try:
                return await self.post(place, draft)
            except DeliveryError as error:
                if error.permanent or error.fate_unknown:
                    raise _begun(error) from error
                log.info("The rest of a message is tried again: %s", error)
            await asyncio.sleep(pause)
        try:
            return await self.post(place, draft)
        except DeliveryError as error:
            raise _begun(error) from error

    async def _upload(self, place: Place, paper: Paper) -> bool:
        """Share the whole text as a snippet; return whether Slack took it."""
        try:
            await self.ask(
                place.workspace,
                lambda client: client.files_upload_v2(
                    content=paper.whole,
                    filename=paper.name,
                    title=paper.name,
                    snippet_type="markdown",
                    channel=place.channel,
                    thread_ts=place.thread or None,
                    initial_comment=texts.IN_FILE,
                ),
            )
        except DeliveryError as error:
            log.info("A text goes out in messages, since a file does not: %s", error)
            return False
        return True

    async def delete(self, place: Place, message_id: str) -> None:
        """Delete a message of ours.

        Raises:
            DeliveryError: It is still there, or was gone already.
        """
        await self.ask(
            place.workspace,
            lambda client: client.chat_delete(channel=place.channel, ts=message_id),
        )

    async def react(self, place: Place, name: str, *, away: bool = False) -> None:
        """Put an emoji below the message of a place, or take our own away.

        Raises:
            DeliveryError: It could not be done.
        """
        where = {"channel": place.channel, "timestamp": place.message, "name": name}
        if away:
            await self.ask(place.workspace, lambda client: client.reactions_remove(**where))
        else:
            await self.ask(place.workspace, lambda client: client.reactions_add(**where))

    async def direct(self, workspace: str, account: str) -> Place:
        """Return the direct messages with a person.

        Raises:
            RefusedError: There is no such person.
            DeliveryError: Not now.
        """
        answer = await self.ask(workspace, lambda client: client.conversations_open(users=account))
        channel: Json = answer["channel"]
        return Place("slack", workspace, str(channel["id"]))

    # -- streams ---------------------------------------------------------------------------------

    async def start_stream(self, place: Place, owner: Identity, markdown: str) -> str:
        """Begin a message that grows in the thread of a place; return its id.

        Raises:
            RefusedError: This app may not, or not there.
            DeliveryError: Not now; or its fate is unknown.
        """
        home = owner.workspace if owner.workspace.startswith("T") else team_of(place.workspace)
        return await self._begin(
            place,
            lambda client: client.chat_startStream(
                channel=place.channel,
                thread_ts=place.thread,
                markdown_text=markdown,
                recipient_team_id=home,
                recipient_user_id=owner.account,
            ),
        )

    async def append_stream(self, place: Place, message_id: str, markdown: str) -> None:
        """Let a message grow.

        Raises:
            RefusedError: It does not grow any more.
            DeliveryError: Not now; or its fate is unknown.
        """
        await self.ask(
            place.workspace,
            lambda client: client.chat_appendStream(
                channel=place.channel, ts=message_id, markdown_text=markdown
            ),
        )

    async def stop_stream(
        self, place: Place, message_id: str, markdown: str = "", *, session: str | None = None
    ) -> None:
        """End the growing of a message.

        Args:
            place: Where it is.
            message_id: Which.
            markdown: The rest of it.
            session: The state of the thread's session from then on.

        Raises:
            DeliveryError: It has ended already, or cannot be ended now.
        """
        await self.ask(
            place.workspace,
            lambda client: client.chat_stopStream(
                channel=place.channel,
                ts=message_id,
                markdown_text=markdown or None,
                session_status=session,
            ),
        )

    async def _with_either(self, draft: Draft, send: Callable[[dict[str, Any]], Awaitable[T]]) -> T:
        """Send a draft as it is, or without what Slack takes offence at."""
        try:
            return await send(draft.content())
        except RefusedError as error:
            if error.code not in problems.CONTENT:
                raise
            log.warning(
                "Slack does not take a message as it is (%s); it goes out plain", error.code
            )
        return await send(draft.plain())


async def _made(request: Request, client: AsyncWebClient) -> AsyncSlackResponse:
    try:
        return await request(client)
    except (SlackClientError, aiohttp.ClientError, OSError) as error:
        raise problem_of(error) from error


async def made_harmless(text: str, *, links: bool = True, growing: bool = False) -> str:
    """Return Markdown as Slack may show it; a long one takes no time from others.

    Args:
        text: Markdown.
        links: Labels may stand for addresses; `False` where every address has to be seen.
        growing: More of the text follows.
    """
    made = partial(texts.harmless, text, links=links, growing=growing)
    return await asyncio.to_thread(made) if len(text) > LARGE else made()


def _begun(error: DeliveryError) -> DeliveryError:
    return DeliveryError(str(error), fate_unknown=True)
