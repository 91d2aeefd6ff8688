"""Whatever a model or a user wrote, and wherever it stands: nobody is pinged, nothing is lost."""

from collections.abc import AsyncIterator

import pytest

from bot.values import RunStatus
from tests.bot.platforms.slack.hostile import WHOLE, corpus, words_of
from tests.bot.platforms.slack.speaking import (
    Stand,
    announcement_of,
    card_of,
    no_limits,
    question_of,
    stand,
)
from tests.fakes.hostile_texts import KEYS
from tests.fakes.readers import misleading, slack_links, slack_pings
from tests.fakes.slack.messages import Message


@pytest.fixture
async def room() -> AsyncIterator[Stand]:
    async with stand(budgets=no_limits()) as opened:
        opened.fake.people.echo = False
        yield opened


def texts_against(room: Stand) -> tuple[str, ...]:
    return corpus(room.bob.id, room.fake.add_usergroup("team"))


def harms(room: Stand, *, owner: bool = False, newest: int | None = None) -> list[object]:
    """Return what any message would do, beside pinging its owner where that is right."""
    allowed = {f"<@{room.alice.id}>"} if owner else set()
    everything = room.everything() if newest is None else room.shown()[-newest:]
    parsed = [s.text for message in everything for s in message.surfaces if s.kind != "plain"]
    return [
        *[ping for message in everything for ping in message.pings if ping not in allowed],
        *[ping for text in parsed for ping in _alive(text) if ping not in allowed],
        *[link for text in parsed for link in slack_links(text)],
        *[link for message in everything for link in message.masked_links if misleading(*link)],
        *[message.text for message in everything if message.truncated],
        *[key for message in everything for key in KEYS if key in message.readable()],
        *room.refused(),
    ]


def _alive(text: str) -> list[str]:
    """Return everything that Slack would not take for text, but the times that we show."""
    return [found for found in slack_pings(text) if not found.startswith("<!date^")]


def read(messages: list[Message]) -> str:
    return "\n".join(message.readable() for message in messages)


async def test_no_reply_harms_when_it_is_posted(room: Stand) -> None:
    for text in texts_against(room):
        await room.outlet.open_reply(room.place, room.owner).finish(text)

    assert harms(room) == []


async def test_no_reply_harms_while_it_streams(room: Stand) -> None:
    for text in texts_against(room):
        reply = room.outlet.open_reply(room.place, room.owner)
        for end in (len(text) // 3, len(text) // 2, len(text) - 1, len(text)):
            reply.update(text[:end])
            await room.tasks.wait_idle(5)
            assert harms(room, newest=1) == [], text
        await reply.finish(text)

    assert harms(room) == []
    assert len(room.called("chat.startStream")) > 100


async def test_no_reply_harms_while_it_is_edited(room: Stand) -> None:
    room.fake.streaming = False
    for text in texts_against(room):
        reply = room.outlet.open_reply(room.place, room.owner)
        reply.update(text[: len(text) // 2])
        await room.tasks.wait_idle(5)
        assert harms(room, newest=1) == [], text
        await reply.finish(text)

    assert harms(room) == []


@pytest.mark.parametrize("streaming", [True, False])
async def test_no_word_of_a_reply_is_lost(room: Stand, *, streaming: bool) -> None:
    room.fake.streaming = streaming
    for text in WHOLE:
        before = len(room.shown())
        reply = room.outlet.open_reply(room.place, room.owner)
        reply.update(text[: len(text) // 2])
        await room.tasks.wait_idle(5)
        await reply.finish(text)

        assert words_of(text) in words_of(read(room.shown()[before:])), text


async def test_no_announcement_pings_more_than_its_owner(room: Stand) -> None:
    for text in texts_against(room):
        await room.outlet.announce(announcement_of(room, title=text, text=text, footer=text))

    assert harms(room, owner=True) == []
    assert all(message.pings == [f"<@{room.alice.id}>"] for message in room.shown()[:1])


async def test_no_word_of_an_announcement_is_lost(room: Stand) -> None:
    for text in WHOLE:
        before = len(room.shown())
        await room.outlet.announce(announcement_of(room, title="", text=text, footer=""))

        assert words_of(text) in words_of(read(room.shown()[before:])), text


async def test_no_card_pings_or_is_refused(room: Stand) -> None:
    for number, text in enumerate(texts_against(room)):
        for status in (RunStatus.RUNNING, RunStatus.FAILED):
            card = card_of(
                room, status, run_id=f"run-{number}", label=text, agent=text, tool=text, line=text
            )
            room.outlet.show_card(card)
        await room.tasks.wait_idle(5)

    assert harms(room) == []
    assert len(room.shown()) == number + 1


async def test_no_question_pings_more_than_its_owner_or_hides_anything(room: Stand) -> None:
    for number, text in enumerate(texts_against(room)):
        await room.outlet.ask(question_of(room, id=f"question-{number}", text=text))

    assert harms(room, owner=True) == []
    for text in WHOLE:
        before = len(room.shown())
        await room.outlet.ask(question_of(room, id="again", text=text))
        assert words_of(text) in words_of(read(room.shown()[before:])), text


async def test_nothing_that_is_told_pings(room: Stand) -> None:
    for text in texts_against(room):
        await room.outlet.tell(room.place, room.owner, text)

    assert harms(room) == []


async def test_the_owner_of_a_text_is_not_pinged_by_it(room: Stand) -> None:
    text = f"<@{room.alice.id}>"
    await room.outlet.open_reply(room.place, room.owner).finish(text)
    await room.outlet.tell(room.place, room.owner, text)
    room.outlet.show_card(card_of(room, RunStatus.FAILED, label=text))
    await room.tasks.wait_idle(5)

    assert room.pings() == []


async def test_where_markdown_is_refused_the_plain_text_harms_as_little() -> None:
    async with stand(budgets=no_limits()) as room:
        room.fake.people.echo = False
        for method in ("chat.postMessage", "chat.update"):
            room.fake.fail(
                method,
                error="invalid_blocks",
                times=None,
                when=lambda a: "markdown_text" in a or "blocks" in a,
            )
        for text in texts_against(room):
            await room.outlet.open_reply(room.place, room.owner).finish(text)
            await room.outlet.announce(announcement_of(room, title=text, text=text, footer=text))

        pings = [ping for ping in room.pings() if ping != f"<@{room.alice.id}>"]
        assert pings == []
        links = [link for message in room.everything() for link in message.masked_links]
        assert [link for link in links if misleading(*link)] == []
