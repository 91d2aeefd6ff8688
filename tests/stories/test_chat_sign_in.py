"""Users sign in to a service with accounts of their own, and nobody uses another's."""

import json
import re

from cryptography.fernet import Fernet

from bot.values import Json
from skills.mcp.settings import McpSettings
from tests.fakes.anthropic_server import Reply
from tests.fakes.oauth_server import FakeOAuth, oauth_server
from tests.stories.chats import Chat, ChatWay, new_chat
from tests.stories.stage import Play, call
from tests.stories.test_chat_control import command


def with_mail(fake: FakeOAuth) -> McpSettings:
    entry = {"url": fake.url, "oauth": {"private_addresses": True}}
    key = Fernet.generate_key().decode()
    return McpSettings.model_validate({"servers": {"mail": entry}, "encryption_key": key})


def results_in(bodies: list[Json]) -> list[str]:
    """Return the texts of the results of tools that the model has read."""
    blocks = [
        block
        for body in bodies
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    return [json.dumps(each["content"]) for each in blocks if each["type"] == "tool_result"]


async def signed_in(chat: Chat, fake: FakeOAuth, user: str) -> str:
    """Let a user sign in by the link of a private answer; return the answer at the end."""
    link = re.search(r"https?://\S+?(?=[)>\s]|$)", await command(chat, user, "connect mail"))
    assert link is not None
    return await command(chat, user, f"connect mail {fake.sign_in(link[0], user)}")


async def test_a_user_signs_in_privately_and_the_service_is_called_with_the_users_own_rights(
    chat_way: ChatWay,
) -> None:
    play = Play(
        main=[
            *(call("mcp__mail__whoami"), Reply(text="It is Alice's.")),
            *(call("mcp__mail__whoami"), Reply(text="Bob is asked.")),
        ],
        runs={},
    )
    async with (
        oauth_server() as fake,
        new_chat(chat_way) as chat,
        chat.bot(play, mcp=with_mail(fake)),
    ):
        assert "You are signed in to mail." in await signed_in(chat, fake, "alice")
        tools = chat.running.registry
        await chat.until(lambda: tools.find("mcp__mail__whoami"), "the tool")
        talk = await chat.ask("alice", "Whose mail is it?")
        await chat.reads(talk, "It is Alice's.")
        await chat.ask_privately("bob", "Whose mail is it?")
        for words in ("Bob is asked.", "/retinue connect mail"):
            await chat.until(
                lambda: any(words in each for each in chat.direct_texts("bob")),  # noqa: B023
                words,
            )

        assert fake.calls == ["alice"]
        found = results_in(play.asked)
        assert any("You are alice." in each for each in found)
        assert "asked the user privately to sign in" in found[-1]
        assert not any("connect mail" in each for each in chat.texts(talk))
