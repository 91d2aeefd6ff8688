"""Builds the Bolt app that handles all payloads from Slack, on every transport."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable

import aiohttp
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from bot.errors import DeliveryError
from bot.platforms.slack import actions
from bot.platforms.slack.clients import Installed
from bot.platforms.slack.intake import SlackMessageReceiver
from bot.platforms.slack.interactions import AdmittedInteraction, SlackReceiver
from bot.platforms.slack.people import SlackUser, speaker_of
from bot.platforms.slack.problems import RefusedError
from bot.platforms.slack.settings import SlackSettings
from bot.values import Json

log = logging.getLogger(__name__)
_BOLT = logging.getLogger("slack_bolt.AsyncApp")

_ANY = re.compile(".*")
#: The key in Bolt's context under which the middleware stores the `Installed` for `authorize`.
_FOUND = "retinue_installed"

Next = Callable[[], Awaitable[BoltResponse]]


def _is_needed(record: logging.LogRecord) -> bool:
    """Return False for the warning that SLACK_BOT_TOKEN is not used, which the guide names."""
    return "`token` will be unused" not in record.getMessage()


def bolt_app(
    receiver: SlackReceiver,
    messages: SlackMessageReceiver,
    settings: SlackSettings,
    session: aiohttp.ClientSession,
) -> AsyncApp:
    """Return the app. It verifies no signatures, since the transport does so before.

    Bolt acknowledges a payload when its handler returns: a message is stored by then, and longer
    work continues in the background.
    """

    async def find(body: Json, context: AsyncBoltContext, next_: Next) -> BoltResponse | None:
        """Find the bot's installation for a payload; acknowledge and ignore unknown workspaces."""
        if body.get("type") != "url_verification":
            try:
                async with asyncio.timeout(receiver.where_seconds):
                    _, context[_FOUND] = await receiver.where(body)
            except RefusedError:
                log.warning("Something came from a Slack workspace where the bot is not")
                return BoltResponse(status=200, body="")
            except TimeoutError:
                # Do not handle a payload that Slack reports to the user as failed.
                log.warning("Where something from Slack belongs is not known in time")
                return BoltResponse(status=503, body="")
        await next_()
        return None

    _BOLT.addFilter(_is_needed)
    app = AsyncApp(
        # Without a name the library reads the source of every caller to find one.
        name=__name__,
        client=AsyncWebClient(base_url=settings.api_url, session=session),
        before_authorize=find,
        authorize=authorize,
        process_before_response=True,
        request_verification_enabled=False,
        ssl_check_enabled=False,
        attaching_function_token_enabled=False,
        attaching_conversation_kwargs_enabled=False,
    )
    app.error(on_error)
    _register_events(app, receiver, messages)
    actions.register(app, receiver, settings)

    @app.event(_ANY)
    @app.shortcut(_ANY)
    @app.options(_ANY)
    async def on_anything_else(ack: AsyncAck) -> None:
        """Acknowledge a payload of a kind that the bot does not offer."""
        await ack()

    return app


def _register_events(
    app: AsyncApp, receiver: SlackReceiver, messages: SlackMessageReceiver
) -> None:

    @app.event("message")
    @app.event("app_mention")
    async def on_message(body: Json) -> None:
        await messages.take(body)

    @app.event("app_home_opened")
    @receiver.in_time
    async def on_home(body: Json, _: AsyncAck) -> None:
        if body["event"].get("tab") == "home" and (user := await _who(receiver, body)):
            await actions.show_home(receiver, user)

    @app.event("agent_session_stopped")
    @receiver.in_time
    async def on_stop(body: Json, _: AsyncAck) -> None:
        """Stop the answer after a click on Slack's own Stop button."""
        user = await _who(receiver, body)
        if user is None:
            return
        event: Json = body["event"]
        place = user.place(str(event.get("channel") or ""), str(event.get("thread_ts") or ""))
        if receiver.reception.refusal(user, place.channel):
            return
        # A later repeated delivery must not stop the next answer.
        event_id = f"event:{body.get('event_id')}"
        admitted = AdmittedInteraction(receiver=receiver, event_id=event_id, user=user, place=place)
        await admitted.carry_out("/retinue stop")

    @app.event("app_uninstalled")
    @app.event("tokens_revoked")
    @receiver.in_time
    async def on_removal(body: Json, _: AsyncAck) -> None:
        """Delete the installation of a workspace that removed the bot or revoked its token."""
        workspace, installed = await receiver.where(body)
        event: Json = body["event"]
        revoked = (event.get("tokens") or {}).get("bot") or ()
        if event["type"] == "app_uninstalled" or installed.user in revoked:
            await receiver.clients.remove(workspace)


async def _who(receiver: SlackReceiver, body: Json) -> SlackUser | None:
    """Return the user who caused an event; `None` for a repeated delivery or without a user."""
    if not receiver.reception.first(("event", body.get("event_id"))):
        log.info("The event %s was delivered again", body.get("event_id"))
        return None
    workspace, installed = await receiver.where(body)
    event: Json = body["event"]
    return speaker_of(event, body, workspace, installed.enterprise) if event.get("user") else None


async def authorize(context: AsyncBoltContext) -> AuthorizeResult:
    """Return the bot's identity for a payload, without a request to Slack."""
    installed: Installed = context[_FOUND]
    return AuthorizeResult(
        enterprise_id=context.enterprise_id,
        team_id=context.team_id,
        bot_user_id=installed.user,
        bot_id=installed.bot,
        bot_token=installed.token,
    )


async def on_error(error: Exception, body: Json) -> BoltResponse:
    """Leave a payload unacknowledged: Slack repeats events and reports other failures to the user.

    An event that causes an unexpected error is acknowledged, since a repetition would fail too.
    """
    if isinstance(error, DeliveryError):
        log.warning("Something from Slack is not taken yet: %s", error)
        return BoltResponse(status=503, body="")
    log.error("Something from Slack could not be taken", exc_info=error)
    return BoltResponse(status=200 if body.get("type") == "event_callback" else 503, body="")
