"""The lines about Discord in the report of `check`."""

from collections.abc import Iterator

from bot.checks import some
from bot.platforms.discord.settings import DiscordSettings
from bot.setting_types import ANSWERED


def lines(settings: DiscordSettings) -> Iterator[str]:
    """Yield the state of the platform for `check`."""
    if not settings.configured:
        yield "off: no DISCORD_TOKEN, and no `discord.token`"
        return
    threads = "a mention opens a thread" if settings.threads else "answers stay in the channel"
    private = ANSWERED[settings.direct_messages]
    yield f"on: {threads}; direct messages are {private}"
    yield f"where: {some(settings.guilds, 'server')}, {some(settings.channels, 'channel')}"
    if settings.roles is not None or settings.users is not None:
        yield (
            f"who: {some(settings.roles or (), 'role')}, "
            f"{some(settings.users or (), 'user', none='nobody else')}"
        )
    else:
        yield "who: everyone there"
    if settings.admin_roles:
        yield f"admins: {some(settings.admin_roles, 'role')}, each of its server"
    yield {
        "global": "slash commands: everywhere, users' own installations included",
        "guilds": "slash commands: in the servers of `discord.guilds`",
        "off": "slash commands: registered by another process",
    }[settings.commands]
    if settings.shard_count:
        yield f"shards: {len(settings.shard_ids) or 'all'} of {settings.shard_count}"
