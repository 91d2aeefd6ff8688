"""Checks the Slack configuration for `doctor`; each failed check names its remedy."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
from slack_sdk.errors import SlackClientError

from bot.checks import Check, fails, is_off, works
from bot.errors import ConfigError, PlatformUnreachableError
from bot.platforms.slack import oauth, sockets, web
from bot.platforms.slack.clients import REFUSED, open_session
from bot.platforms.slack.problems import RefusedError, problem_of
from bot.platforms.slack.settings import SlackSettings
from bot.values import Json

PATIENCE_SECONDS = 10.0

_SCOPES_HEADER = "x-oauth-scopes"
#: An invalid code. Slack refuses it after it has accepted the client.
_NO_CODE = "doctor"
_WRONG_CLIENT = {
    "invalid_client_id": "`slack.client_id` (or SLACK_CLIENT_ID)",
    "bad_client_secret": "`slack.client_secret` (or SLACK_CLIENT_SECRET)",
}


async def look(
    settings: SlackSettings, *, patience_seconds: float = PATIENCE_SECONDS
) -> list[Check]:
    """Return the findings about this bot, after at most `patience_seconds`."""
    found: list[Check] = []
    try:
        async with asyncio.timeout(patience_seconds), open_session() as session:
            async for check in _checks(settings, session):
                found.append(check)  # noqa: PERF401 - findings before a failure count
    except TimeoutError:
        text = f"{settings.api_url} did not answer within {patience_seconds:g} s. {_CHECK}"
        found.append(fails(text))
    except PlatformUnreachableError as error:
        found.append(fails(str(error)))
    return found


async def _checks(settings: SlackSettings, session: aiohttp.ClientSession) -> AsyncIterator[Check]:
    if settings.many_workspaces:
        yield await _check_app(settings, session)
    else:
        async for check in _check_token(settings, session):
            yield check
    if settings.mode == "socket":
        try:
            await sockets.ask_for_connection(settings, session)
        except ConfigError as error:
            yield fails(str(error))
        except PlatformUnreachableError as error:
            raise _unreachable(settings, error.__cause__ or error) from error
        else:
            yield works("Slack opens connections with the app token (Socket Mode).")
        return
    address = settings.public_url or "https://your-address.example"
    yield is_off(
        f"Slack has to reach {settings.host}:{settings.port} as {address}{web.EVENTS_PATH}: "
        "the app's manifest names that address for events, interactivity and every command.",
    )
    yield is_off(
        "the signing secret is set; whether it is right shows when Slack sends something: "
        "with a wrong one `serve` says so in its log.",
    )


async def _check_token(
    settings: SlackSettings, session: aiohttp.ClientSession
) -> AsyncIterator[Check]:
    """Check the token of the one workspace, and its scopes."""
    assert settings.bot_token is not None, "The check runs where the token is configured."
    token = settings.bot_token.get_secret_value().strip()
    try:
        answer = await sockets.app_client(settings, session).auth_test(token=token)
    except (SlackClientError, aiohttp.ClientError, OSError) as error:
        yield fails(REFUSED.format(code=_refused(settings, error)))
        return
    me: Json = dict(answer.data) if isinstance(answer.data, dict) else {}
    org_wide = bool(me.get("is_enterprise_install"))
    where = f"the {'organisation' if org_wide else 'workspace'} “{me.get('team')}”"
    yield works(f"the token is {me.get('user')}'s, in {where}.")
    here = {str(me[name]) for name in ("team_id", "enterprise_id") if me.get(name)}
    if not org_wide and settings.workspaces and not here & set(settings.workspaces):
        yield fails(
            f"`slack.workspaces` does not name {me.get('team_id')}, where the bot is: it "
            "answers nobody of that workspace. Add it there, or empty the list.",
        )
    headers = {str(name).lower(): str(value) for name, value in answer.headers.items()}
    if _SCOPES_HEADER not in headers:
        yield is_off("Slack does not say which scopes the bot was granted.")
        return
    granted = {scope.strip() for scope in headers[_SCOPES_HEADER].split(",")}
    missing = [f"{need.name} ({need.use})" for need in oauth.SCOPES if need.name not in granted]
    if not missing:
        yield works("it was granted every scope that it needs.")
        return
    yield fails(
        f"it lacks the scope{'' if len(missing) == 1 else 's'} {', '.join(missing)}. On the page "
        "OAuth & Permissions of api.slack.com/apps, under Bot Token Scopes, press Add an OAuth "
        "Scope for each, then Reinstall at the top of the page.",
    )


async def _check_app(settings: SlackSettings, session: aiohttp.ClientSession) -> Check:
    """Check the app's credentials for many workspaces."""
    assert settings.client_secret is not None, "The settings require it."
    try:
        await sockets.app_client(settings, session).oauth_v2_access(
            client_id=settings.client_id or "",
            client_secret=settings.client_secret.get_secret_value().strip(),
            code=_NO_CODE,
        )
    except (SlackClientError, aiohttp.ClientError, OSError) as error:
        if wrong := _WRONG_CLIENT.get(_refused(settings, error)):
            return fails(
                f"Slack refuses {wrong}: copy it anew from the page Basic Information of "
                "api.slack.com/apps."
            )
    return works(
        "Slack accepts the app's id and secret. Workspaces install the bot from "
        f"{settings.public_url}{oauth.INSTALL_PATH}, an address that only Slack and browsers try.",
    )


_CHECK = "Check this computer's connection to the internet, and `slack.api_url`."


def _refused(settings: SlackSettings, error: Exception) -> str:
    """Return Slack's code of a refusal.

    Raises:
        PlatformUnreachableError: The error is no refusal: Slack is unreachable or out of order.
    """
    problem = problem_of(error)
    if isinstance(problem, RefusedError):
        return str(problem.code)
    raise _unreachable(settings, error) from error


def _unreachable(settings: SlackSettings, error: BaseException) -> PlatformUnreachableError:
    if isinstance(error, SlackClientError):
        return PlatformUnreachableError(
            "Slack is out of order or limits requests: try again in a few "
            "minutes. https://slack-status.com tells how it is."
        )
    return PlatformUnreachableError(
        f"{settings.api_url} cannot be reached ({str(error) or type(error).__name__}). {_CHECK}"
    )
