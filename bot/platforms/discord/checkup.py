"""Discord checks of `doctor`, with instructions for fixing each problem."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress

import aiohttp
import discord

from bot.checks import Check, fails, is_off, works
from bot.conversations.command_table import COMMANDS
from bot.errors import ConfigError, DeliveryError, PlatformUnreachableError
from bot.platforms.discord import portal
from bot.platforms.discord.client import RetinueClient, open_client
from bot.platforms.discord.registration import comparable, payload, registered
from bot.platforms.discord.settings import DiscordSettings
from bot.values import Identity, Place

PATIENCE_SECONDS = 10.0
#: Number of servers that are checked, from the start of the list.
SERVERS_LOOKED_AT = 10


async def look(
    settings: DiscordSettings,
    *,
    admin_channels: Sequence[Place] = (),
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[Check]:
    """Return checks about the bot's set-up on Discord, after `patience_seconds` at most."""
    found: list[Check] = []
    try:
        async with asyncio.timeout(patience_seconds), open_client(settings) as client:
            async for check in _checks(client):
                found.append(check)  # noqa: PERF401 - checks found before a failure must remain
            found += [await _admin_channel(client, each) for each in admin_channels]
    except TimeoutError:
        text = f"{settings.api_url} did not answer within {patience_seconds:g} s. {_NO_ANSWER}"
        found.append(fails(text))
    except (ConfigError, PlatformUnreachableError) as error:
        found.append(fails(str(error)))
    except (discord.HTTPException, aiohttp.ClientError, OSError) as error:
        found.append(fails(f"Discord stopped responding: {error}."))
    return found


_NO_ANSWER = "Check this computer's connection to the internet, and `discord.api_url`."


async def greet(settings: DiscordSettings, user: Identity, text: str) -> None:
    """Send a first message to an account, in direct messages.

    Raises:
        ConfigError: Discord refuses the token.
        PlatformUnreachableError: Discord is unreachable or out of order.
        DeliveryError: The account cannot be written to.
    """
    async with open_client(lambda: settings) as client:
        try:
            found = await client.fetch_user(int(user.account))
            await found.send(text, allowed_mentions=discord.AllowedMentions.none())
        except (discord.HTTPException, ValueError) as error:
            advice = "it shares no server with the bot, or takes no direct messages"
            raise DeliveryError(f"{advice} ({error}).") from error


async def _checks(client: RetinueClient) -> AsyncIterator[Check]:
    application = client.application
    assert application is not None
    yield works(f"the token is {client.user}'s, of “{application.name}”.")
    if client.intents.message_content:
        yield works(
            "Message Content Intent is on: in threads it receives messages without a mention."
        )
    else:
        yield is_off(portal.without_content(application.id))
    for check in _settings_of(application):
        yield check
    for guild_id in (client.settings.guilds or ())[:SERVERS_LOOKED_AT]:
        try:
            await client.fetch_guild(int(guild_id), with_counts=False)
        except (discord.NotFound, discord.Forbidden):
            yield fails(
                f"`discord.guilds` names {guild_id}, where it is not. Add it there, or take "
                "the id out.",
            )
    async for check in _commands(client):
        yield check


async def _admin_channel(client: RetinueClient, place: Place) -> Check:
    """Check that the bot may write in an admin channel."""
    name = f"discord:{place.workspace}:{place.channel}"
    assert client.user is not None
    try:
        guild = await client.fetch_guild(int(place.workspace), with_counts=False)
        me = await guild.fetch_member(client.user.id)
        rooms = {str(each.id): each for each in await guild.fetch_channels()}
    except (ValueError, discord.NotFound, discord.Forbidden):
        return fails(f"`access.admin_channel` names {name}: the bot is not in that server.")
    room = rooms.get(place.channel)
    if room is None:
        return fails(f"`access.admin_channel` names {name}: there is no such channel.")
    may = room.permissions_for(me)
    if not (may.view_channel and may.send_messages):
        return fails(
            f"it may not write in the admin channel #{room.name} ({name}): give it View Channel "
            "and Send Messages there."
        )
    return works(f"it may write in the admin channel #{room.name}.")


def _settings_of(application: discord.AppInfo) -> Iterator[Check]:
    page = portal.page(application.id, "bot")
    if application.interactions_endpoint_url:
        yield fails(
            "buttons and slash commands do not arrive: they are sent to "
            f"{application.interactions_endpoint_url}. Open "
            f"{portal.page(application.id, 'information')}, empty Interactions Endpoint URL, "
            "and press Save Changes.",
        )
    if application.bot_require_code_grant:
        yield fails(
            f"nobody can add the bot to a server. Open {page}, switch off Requires OAuth2 Code "
            "Grant, and press Save Changes.",
        )
    if application.bot_public:
        yield works(
            "everyone may add the bot to their servers; `discord.guilds` keeps it to yours. To "
            f"forbid it, open {page} and switch off Public Bot."
        )
    else:
        yield works("the bot is private: only you can add it to servers.")
    count, invite = application.approximate_guild_count, portal.invite_url(application.id)
    if count:
        servers = "1 server" if count == 1 else f"{count} servers"
        yield works(f"it is in {servers}; add it to another with {invite}")
    else:
        yield is_off(f"it is in no server yet. Add it with {invite}")


async def _commands(client: RetinueClient) -> AsyncIterator[Check]:
    where = client.settings.commands
    if where == "off":
        yield is_off("slash commands: another process registers them.")
        return
    wanted = payload(COMMANDS)
    # The commands of skills are not compared.
    known = {each["name"]: {one["name"] for one in each["options"]} for each in wanted}
    listed = ", ".join(sorted(f"/{command['name']}" for command in wanted))
    for guild_id in (
        (client.settings.guilds or ())[:SERVERS_LOOKED_AT] if where == "guilds" else ("",)
    ):
        what = f"slash commands{f' in the server {guild_id}' if guild_id else ''}: {listed}"
        with suppress(discord.NotFound, discord.Forbidden):  # reported by `_checks`
            there = [
                {
                    **each,
                    "options": [one for one in each.get("options") or () if one["name"] in ours],
                }
                for each in await registered(client, guild_id)
                if (ours := known.get(each["name"]))
            ]
            if comparable(there, guild=bool(guild_id)) == comparable(wanted, guild=bool(guild_id)):
                yield works(f"{what} are registered.")
            else:
                state = "are those of another version" if there else "are not registered yet"
                yield is_off(f"{what} {state}; `serve` registers them.")
