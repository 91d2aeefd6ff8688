"""Checks the Slack configuration for `doctor`; each failed check names its remedy."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.checks import Check, fails, is_off, works
from bot.errors import ConfigError, PlatformUnreachableError
from bot.platforms.slack import oauth, scopes, sockets, web
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
        yield await _client(settings, session)
    else:
        async for check in _bot(settings, session):
            yield check
    if settings.mode == "socket":
        yield await _connection(settings, session)
    else:
        for check in _requests(settings):
            yield check


# --- single-workspace token ---------------------------------------------------------------------


async def _bot(settings: SlackSettings, session: aiohttp.ClientSession) -> AsyncIterator[Check]:
    assert settings.bot_token is not None, "What is not configured is not looked at."
    token = settings.bot_token.get_secret_value().strip()
    try:
        answer = await sockets.app_client(settings, session).auth_test(token=token)
    except (SlackClientError, aiohttp.ClientError, OSError) as error:
        code = _refused(settings, error)
        yield fails(REFUSED.format(code=code))
        return
    me: Json = dict(answer.data) if isinstance(answer.data, dict) else {}
    org_wide = bool(me.get("is_enterprise_install"))
    where = f"the {'organisation' if org_wide else 'workspace'} “{me.get('team')}”"
    yield works(f"the token is {me.get('user')}'s, in {where}.")
    if not org_wide:
        for check in _left_out(settings, me):
            yield check
    yield _granted(answer)


def _left_out(settings: SlackSettings, me: Json) -> Iterator[Check]:
    """Yield a finding if the bot is installed in a workspace that the settings exclude."""
    here = {str(me.get(name)) for name in ("team_id", "enterprise_id") if me.get(name)}
    if settings.workspaces and not here & set(settings.workspaces):
        yield fails(
            f"`slack.workspaces` does not name {me.get('team_id')}, where the bot is: it "
            "answers nobody of that workspace. Add it there, or empty the list.",
        )


def _granted(answer: AsyncSlackResponse) -> Check:
    headers = {str(name).lower(): str(value) for name, value in answer.headers.items()}
    if _SCOPES_HEADER not in headers:
        return is_off("Slack does not say which scopes the bot was granted.")
    granted = {scope.strip() for scope in headers[_SCOPES_HEADER].split(",")}
    missing = [f"{need.name} ({need.use})" for need in scopes.SCOPES if need.name not in granted]
    if not missing:
        return works("it was granted every scope that it needs.")
    which = "the scope" if len(missing) == 1 else "the scopes"
    return fails(
        f"it lacks {which} {', '.join(missing)}. On the page OAuth & Permissions of "
        "api.slack.com/apps, under Bot Token Scopes, press Add an OAuth Scope for each, then "
        "Reinstall at the top of the page.",
    )


# --- app credentials for many workspaces --------------------------------------------------------


async def _client(settings: SlackSettings, session: aiohttp.ClientSession) -> Check:
    assert settings.client_secret is not None, "It has been checked that it is there."
    try:
        await sockets.app_client(settings, session).oauth_v2_access(
            client_id=settings.client_id or "",
            client_secret=settings.client_secret.get_secret_value().strip(),
            code=_NO_CODE,
        )
    except (SlackClientError, aiohttp.ClientError, OSError) as error:
        if wrong := _WRONG_CLIENT.get(_refused(settings, error)):
            text = f"Slack refuses {wrong}: copy it anew {_BASIC_INFORMATION}."
            return fails(text)
    return works(
        "Slack accepts the app's id and secret. Workspaces install the bot from "
        f"{settings.public_url}{oauth.INSTALL_PATH}, an address that only Slack and browsers try.",
    )


# --- transport ----------------------------------------------------------------------------------


async def _connection(settings: SlackSettings, session: aiohttp.ClientSession) -> Check:
    try:
        await sockets.ask_for_connection(settings, session)
    except ConfigError as error:
        return fails(str(error))
    except PlatformUnreachableError as error:
        raise _unreachable(settings, error.__cause__ or error) from error
    return works("Slack opens connections with the app token (Socket Mode).")


def _requests(settings: SlackSettings) -> Iterator[Check]:
    address = settings.public_url or "https://your-address.example"
    yield is_off(
        f"Slack has to reach {settings.host}:{settings.port} as {address}{web.EVENTS_PATH}: "
        "the app's manifest names that address for events, interactivity and every command.",
    )
    yield is_off(
        "the signing secret is set; whether it is right shows when Slack sends something: "
        "with a wrong one `serve` says so in its log.",
    )


# --- errors -------------------------------------------------------------------------------------

_CHECK = "Check this computer's connection to the internet, and `slack.api_url`."
_BASIC_INFORMATION = "from the page Basic Information of api.slack.com/apps"


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
            "Slack is out of order, or asks to be left alone for a while: ask again in a few "
            "minutes. https://slack-status.com tells how it is."
        )
    return PlatformUnreachableError(
        f"{settings.api_url} cannot be reached ({str(error) or type(error).__name__}). {_CHECK}"
    )
