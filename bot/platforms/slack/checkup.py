"""Checks the Slack configuration for `doctor`; each failed check names its remedy."""

import asyncio
from collections.abc import Sequence

from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from bot.checks import Check, fails, is_off, works
from bot.errors import ConfigError, DeliveryError, PlatformUnreachableError
from bot.platforms.slack import oauth, sockets, web
from bot.platforms.slack.clients import REFUSED, open_session
from bot.platforms.slack.problems import RefusedError, made
from bot.platforms.slack.settings import SlackSettings
from bot.setting_types import plain_secret
from bot.values import Identity, Json, Place

PATIENCE_SECONDS = 10.0

_CHECK = "Check this computer's connection to the internet, and `slack.api_url`."
_OUT_OF_ORDER = (
    "Slack is out of order or limits requests: try again in a few minutes. "
    "https://slack-status.com tells how it is."
)

#: Number of channels whose history is read, messages asked for, and messages of a limited app.
CHANNELS_LOOKED_AT, ASKED_FOR, LIMITED_TO = 5, 50, 15
LIMITED = (
    "Slack limits this app to one history of 15 messages a minute, as it does with apps that are "
    "offered to other companies outside of its Marketplace. The bot reads what is above its first "
    "mention, and then keeps what it receives; after a time without a connection it reads little. "
    "An app that a company makes for itself has no such limit."
)

_SCOPES_HEADER = "x-oauth-scopes"
#: An invalid code. Slack refuses it after it has accepted the client.
_NO_CODE = "doctor"
_WRONG_CLIENT = {
    "invalid_client_id": "`slack.client_id` (or SLACK_CLIENT_ID)",
    "bad_client_secret": "`slack.client_secret` (or SLACK_CLIENT_SECRET)",
}


async def look(
    settings: SlackSettings,
    *,
    admin_channels: Sequence[Place] = (),
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[Check]:
    """Return the findings about this bot, after at most `patience_seconds`."""
    found: list[Check] = []
    try:
        async with asyncio.timeout(patience_seconds), open_session() as session:
            client = sockets.app_client(settings, session)
            check = _check_app if settings.many_workspaces else _check_token
            found += await check(settings, client)
            if not settings.many_workspaces:
                found += [await _admin_channel(settings, client, each) for each in admin_channels]
            if settings.mode == "socket":
                await sockets.ask_for_connection(settings, session)
                found.append(works("Slack opens connections with the app token (Socket Mode)."))
    except TimeoutError:
        text = f"{settings.api_url} did not answer within {patience_seconds:g} s. {_CHECK}"
        return [*found, fails(text)]
    except ConfigError as error:
        return [*found, fails(str(error))]
    except (DeliveryError, PlatformUnreachableError) as error:
        cause, text = error.__cause__ or error, _OUT_OF_ORDER
        if not isinstance(cause, SlackClientError):
            reason = str(cause) or type(cause).__name__
            text = f"{settings.api_url} cannot be reached ({reason}). {_CHECK}"
        return [*found, fails(text)]
    if settings.mode == "http":
        address = settings.public_url or "https://your-address.example"
        found += [
            is_off(
                f"Slack has to reach {settings.host}:{settings.port} as "
                f"{address}{web.EVENTS_PATH}: the app's manifest names that address for events, "
                "interactivity and every command.",
            ),
            is_off(
                "the signing secret is set; whether it is right shows when Slack sends something: "
                "with a wrong one `serve` says so in its log.",
            ),
        ]
    return found


async def greet(settings: SlackSettings, user: Identity, text: str) -> None:
    """Send a first message to an account, in direct messages.

    Raises:
        DeliveryError: The account cannot be written to.
    """
    token = plain_secret(settings.bot_token)
    async with open_session() as session:
        client = sockets.app_client(settings, session)
        try:
            await client.chat_postMessage(token=token, channel=user.account, text=text)
        except (SlackClientError, OSError) as error:
            raise DeliveryError(f"{error}".splitlines()[0]) from error


async def _check_token(settings: SlackSettings, client: AsyncWebClient) -> list[Check]:
    """Check the token of the one workspace, and its scopes."""
    token = plain_secret(settings.bot_token)
    try:
        answer = await made(client.auth_test(token=token))
    except RefusedError as error:
        return [fails(REFUSED.format(code=error.code))]
    me: Json = dict(answer.data) if isinstance(answer.data, dict) else {}
    org_wide = bool(me.get("is_enterprise_install"))
    where = f"the {'organisation' if org_wide else 'workspace'} “{me.get('team')}”"
    found = [works(f"the token is {me.get('user')}'s, in {where}.")]
    here = {str(me[name]) for name in ("team_id", "enterprise_id") if me.get(name)}
    admitted = settings.workspaces
    if not org_wide and admitted is not None and not here & set(admitted):
        text = (
            f"`slack.workspaces` does not name {me.get('team_id')}, where the bot is: it answers "
            "nobody of that workspace. Add it there, or remove the list."
        )
        found.append(fails(text))
    headers = {str(name).lower(): str(value) for name, value in answer.headers.items()}
    if _SCOPES_HEADER not in headers:
        return [*found, is_off("Slack does not say which scopes the bot was granted.")]
    granted = {scope.strip() for scope in headers[_SCOPES_HEADER].split(",")}
    missing = [f"{name} ({use})" for name, use in oauth.SCOPES.items() if name not in granted]
    if not missing:
        found.append(works("it was granted every scope that it needs."))
        # Slack lists the channels of one workspace alone.
        return found if org_wide else [*found, await _check_history(client, token)]
    text = (
        f"it lacks the scope{'' if len(missing) == 1 else 's'} {', '.join(missing)}. On the page "
        "OAuth & Permissions of api.slack.com/apps, under Bot Token Scopes, press Add an OAuth "
        "Scope for each, then Reinstall at the top of the page."
    )
    return [*found, fails(text)]


async def _admin_channel(settings: SlackSettings, client: AsyncWebClient, place: Place) -> Check:
    """Check that the bot may write in an admin channel."""
    name = f"slack:{place.workspace}:{place.channel}"
    token = plain_secret(settings.bot_token)
    try:
        answer = await made(client.conversations_info(token=token, channel=place.channel))
    except RefusedError as error:
        return fails(f"`access.admin_channel` names {name}: Slack answers {error.code}.")
    room: Json = answer.get("channel") or {}
    if not room.get("is_member"):
        return fails(f"it is not in the admin channel {name}: invite it there.")
    if room.get("is_archived"):
        return fails(f"the admin channel {name} is archived: name another one.")
    return works(f"it is in the admin channel {name}.")


async def _check_history(client: AsyncWebClient, token: str) -> Check:
    """Measure whether Slack limits the histories of this app, by those of a few channels.

    The limit: "Rate limit changes for non-Marketplace apps" in Slack's changelog (29 May 2025).
    """
    try:
        joined = await made(
            client.users_conversations(
                token=token,
                types="public_channel,private_channel",
                exclude_archived=True,
                limit=100,
            )
        )
        channels: list[Json] = joined.get("channels") or []
        for channel in channels[:CHANNELS_LOOKED_AT]:
            answer = await made(
                client.conversations_history(token=token, channel=channel["id"], limit=ASKED_FOR)
            )
            returned = len(answer.get("messages") or ())
            if returned > LIMITED_TO:
                return works(f"Slack returns {returned} messages of a channel at once.")
            if answer.get("has_more"):
                return is_off(LIMITED)
    except RefusedError as error:
        return is_off(f"how much of a channel Slack returns was not measured: {error}")
    except DeliveryError as error:
        if error.retry_after_seconds:
            return is_off(LIMITED)
        raise
    return is_off(
        f"how much of a channel Slack returns was not measured: the bot is in no channel with more "
        f"than {LIMITED_TO} messages. Invite it to one."
    )


async def _check_app(settings: SlackSettings, client: AsyncWebClient) -> list[Check]:
    """Check the app's credentials for many workspaces."""
    try:
        await made(
            client.oauth_v2_access(
                client_id=settings.client_id or "",
                client_secret=plain_secret(settings.client_secret),
                code=_NO_CODE,
            )
        )
    except RefusedError as error:
        if wrong := _WRONG_CLIENT.get(str(error.code)):
            text = (
                f"Slack refuses {wrong}: copy it anew from the page Basic Information of "
                "api.slack.com/apps."
            )
            return [fails(text)]
    text = (
        "Slack accepts the app's id and secret. Workspaces install the bot from "
        f"{settings.public_url}{oauth.INSTALL_PATH}, an address that only Slack and browsers try."
    )
    return [works(text)]
