"""What is said about Discord's portal: right numbers, and a sentence for every refusal."""

import pytest

from bot.platforms.discord import portal


def test_the_invite_asks_for_the_needed_permissions_and_for_slash_commands() -> None:
    assert portal.invite_url(4242) == (
        "https://discord.com/oauth2/authorize?client_id=4242"
        "&scope=bot+applications.commands&permissions=309237746752"
    )


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
