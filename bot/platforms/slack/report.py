"""The lines about Slack in the report of `check`."""

from collections.abc import Iterator

from bot.checks import some
from bot.platforms.slack.settings import SlackSettings
from bot.setting_types import ANSWERED


def lines(settings: SlackSettings) -> Iterator[str]:
    """Yield the state of the platform for `check`."""
    if not settings.configured:
        yield "off: no SLACK_BOT_TOKEN, and no `slack.bot_token`; docs/slack.md leads through it"
        return
    private = ANSWERED[settings.direct_messages]
    if settings.mode == "socket":
        yield f"on: over connections that it opens itself; direct messages are {private}"
    else:
        yield f"on: at {settings.host}:{settings.port}; direct messages are {private}"
    if settings.many_workspaces:
        yield f"installed: by each workspace, from {settings.public_url}/slack/install"
    yield f"where: {some(settings.workspaces, 'workspace')}, {some(settings.channels, 'channel')}"
    everyone = settings.users is None
    yield f"who: {'everyone there' if everyone else some(settings.users, 'user', none='nobody')}"
    yield f"slash commands: {settings.command}, {settings.subagents_command}"
