"""Sends private answers to the user who asked, over the first method that Slack accepts."""

import logging
from dataclasses import replace

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.webhook.async_client import AsyncWebhookClient

from bot.errors import DeliveryError
from bot.platforms.messaging.splitting import MessageParts
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.sending import Sender, framed, made_harmless
from bot.platforms.slack.texts import parts_of
from bot.values import Json, Place

log = logging.getLogger(__name__)

#: Most messages that follow one click or command. Slack limits the uses of a `response_url`;
#: longer answers are sent as direct messages.
MOST_FOLLOWING = 4
IN_PRIVATE = "The answer is long, so I sent it to you in a direct message."


class PrivateAnswers:
    """Answers users in private.

    Args:
        sender: Sends messages.
        session: For answers over a `response_url`; without a session these answers are messages.
    """

    def __init__(self, sender: Sender, session: aiohttp.ClientSession | None = None) -> None:
        self._sender = sender
        self._session = session

    async def say(
        self,
        place: Place,
        account: str,
        text: str,
        *,
        below: tuple[Json, ...] = (),
        response_url: str = "",
    ) -> None:
        """Send a text only to the user who asked. Logs an answer that cannot be delivered.

        Args:
            place: The place of the request; without a channel for the Home tab.
            account: The account of the user.
            text: Markdown, not yet cleaned.
            below: Blocks below the text.
            response_url: The address at which Slack accepts answers to the interaction for half an
                hour; empty for none.
        """
        parts = parts_of(await made_harmless(text), name="answer.md")
        # A user who asked in a thread would overlook an answer over the `response_url`.
        follows = response_url and self._session and not place.thread
        try:
            if follows and await self._follow(place, account, response_url, parts, below):
                return
            if not place.channel or place.channel.startswith("D"):
                await self._say_directly(place, account, parts, below)
                return
            try:
                for part, under in _with_below(parts, below):
                    await self._sender.whisper(place, account, framed(part, below=under))
            except RefusedError as error:
                if not error.place_gone:
                    raise
                await self._say_directly(place, account, parts, below)
        except DeliveryError as error:
            log.warning("An answer in %s is lost: %s", place.channel or "Home", error)

    async def _follow(
        self,
        place: Place,
        account: str,
        response_url: str,
        parts: MessageParts,
        below: tuple[Json, ...],
    ) -> bool:
        """Answer over the `response_url`; return True if Slack accepted the answer."""
        if len(parts.texts) > MOST_FOLLOWING:
            try:
                await self._say_directly(place, account, parts, below)
            except RefusedError as error:
                log.info("An answer cannot be sent in private: %s", error)
                return False
            await self._respond(response_url, IN_PRIVATE, ())
            return True
        for part, under in _with_below(parts, below):
            # Once a part is shown, later parts that fail are dropped: they belong nowhere else.
            if not await self._respond(response_url, part, under) and part is parts.texts[0]:
                return False
        return True

    async def _respond(self, url: str, markdown: str, below: tuple[Json, ...]) -> bool:
        webhook = AsyncWebhookClient(url, session=self._session, retry_handlers=[])
        markdown = self._sender.commands.shown(markdown)
        try:
            answer = await webhook.send(
                text=markdown,
                blocks=[{"type": "markdown", "text": markdown}, *below],
                response_type="ephemeral",
                replace_original=False,
                unfurl_links=False,
                unfurl_media=False,
            )
        except (SlackClientError, aiohttp.ClientError, OSError) as error:
            log.info("Slack did not say whether it took an answer: %r", error)
            return False
        if answer.status_code != 200:
            log.info("Slack does not take the answer to a click or command: %s", answer.body)
        return answer.status_code == 200

    async def _say_directly(
        self, place: Place, account: str, parts: MessageParts, below: tuple[Json, ...]
    ) -> None:
        if not place.channel.startswith("D"):
            place = await self._sender.direct(place.workspace, account)
        try:
            await self._sender.post_all(place, parts, below=below)
        except RefusedError as error:
            if not (error.thread_gone and place.thread):
                raise
            await self._sender.post_all(replace(place, thread=""), parts, below=below)


def _with_below(parts: MessageParts, below: tuple[Json, ...]) -> list[tuple[str, tuple[Json, ...]]]:
    """Return the parts, the last with the blocks below it."""
    *before, last = parts.texts
    return [*((part, ()) for part in before), (last, below)]
