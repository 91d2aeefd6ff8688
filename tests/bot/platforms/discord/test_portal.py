"""What is said about Discord's portal: right numbers, and a sentence for every refusal."""

import discord
import pytest

from bot.platforms.discord import portal

NAMES = {
    "View Channels": "view_channel",
    "Send Messages": "send_messages",
    "Send Messages in Threads": "send_messages_in_threads",
    "Create Public Threads": "create_public_threads",
    "Attach Files": "attach_files",
    "Read Message History": "read_message_history",
    "Add Reactions": "add_reactions",
}


def test_the_permissions_are_those_that_discord_has_under_these_bits() -> None:
    wanted = discord.Permissions(**{NAMES[each.name]: True for each in portal.PERMISSIONS})

    assert wanted.value == portal.PERMISSION_INTEGER


def test_the_invite_asks_for_these_permissions_and_for_slash_commands() -> None:
    url = portal.invite_url(4242)

    wanted = discord.utils.oauth_url(
        4242,
        permissions=discord.Permissions(portal.PERMISSION_INTEGER),
        scopes=("bot", "applications.commands"),
    )
    assert url == wanted


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (4004, "press Reset Token"),
        (4010, "`discord.shard_ids`"),
        (4011, "set `discord.shard_count`"),
        (4012, "install a newer bot"),
        (4013, "https://discord.com/developers/applications/4242/bot"),
        (4014, "switch on Message Content Intent"),
        (4999, "the code 4999"),
    ],
)
def test_every_refusal_of_the_gateway_says_what_to_do(code: int, advice: str) -> None:
    assert advice in portal.closed_for_good(code, 4242)
