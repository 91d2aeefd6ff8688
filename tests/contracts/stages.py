"""Where the contract of the `Outlet` port is played: one stage for each outlet.

A new platform adds its stage here and nothing to the suite.
"""

import html
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from bot.agent.sanitizer import safe_markdown
from bot.platforms.base import Outlet, RunCard
from bot.platforms.messaging.texts import call_lines
from bot.platforms.terminal.people import identity_of, place_of
from bot.tasks import Tasks
from bot.values import Identity, Place
from tests.bot.platforms.discord.speaking import Stand, readable, stand
from tests.bot.platforms.slack.speaking import Stand as SlackStand
from tests.bot.platforms.slack.speaking import stand as slack_stand
from tests.fakes.bulletin.platform import BulletinOutlet
from tests.fakes.bulletin.service import Bulletin, Post
from tests.fakes.outlet import FakeOutlet
from tests.fakes.terminal import Sitting, sit_down


class Stage(Protocol):
    """An outlet, and the eyes of the user it talks to.

    Attributes:
        owner: The user who reads.
        place: Where they read.
    """

    outlet: Outlet
    owner: Identity
    place: Place

    def seen(self) -> str:
        """Return what the user can read there now, without the platform's own markup."""
        ...

    def choices(self) -> list[str]:
        """Return the labels of what they can pick from, in order."""
        ...

    async def shows(self, part: str) -> None:
        """Wait until they can read something."""
        ...

    def dangers(self) -> list[str]:
        """Return what of all that was sent would do something: ping, move a cursor, run."""
        ...

    async def leave(self) -> bool:
        """Let the user go away; return whether this platform knows about that."""
        ...


def _card_text(card: RunCard) -> str:
    steps = [(step.tool, step.state) for step in card.steps]
    return "\n".join([f"{card.label} {card.status}", *call_lines(steps, calls=card.tool_calls)])


class FakeStage:
    """The fake outlet, read through its lists."""

    def __init__(self) -> None:
        self.fake = FakeOutlet()
        self.outlet: Outlet = self.fake
        self.owner = Identity("fake", "", "alice")
        self.place = Place("fake", channel="alice")

    def seen(self) -> str:
        """Return all texts in one."""
        fake = self.fake
        replies = [reply.final or "".join(reply.updates[-1:]) for reply in fake.replies]
        cards = [_card_text(cards[-1]) for cards in fake.cards.values()]
        said = [
            f"{item.title} {item.text} {item.footer} {'repetition' * item.maybe_repeated}"
            for item in fake.announcements
        ]
        said += ["repetition" * each for each in fake.repeated_files]
        others = [item.text for item in fake.questions]
        others += [item.text for item in (*fake.told, *fake.posted)]
        others += [settlement.chosen for settlement in fake.settled.values()]
        return safe_markdown("\n".join(replies + cards + said + others))

    def choices(self) -> list[str]:
        """Return what the questions offer."""
        shown = {asked.id: asked for asked in self.fake.questions}
        waiting = [asked for asked in shown.values() if asked.id not in self.fake.settled]
        return [safe_markdown(each.label) for asked in waiting for each in asked.choices]

    async def shows(self, part: str) -> None:
        """Wait until it was recorded."""
        await self.fake.until(lambda: part in self.seen(), part)

    def dangers(self) -> list[str]:
        """Return nothing: lists do nothing."""
        return []

    async def leave(self) -> bool:
        """Let its only reader be absent."""
        self.fake.absent.add(self.owner)
        return True


class TerminalStage:
    """A user at a terminal of paper."""

    def __init__(self, sitting: Sitting) -> None:
        self.sitting = sitting
        self.outlet: Outlet = sitting.terminal.outlet
        self.owner = identity_of("alice")
        self.place = place_of(self.owner)

    def seen(self) -> str:
        """Return the whole paper."""
        return self.sitting.screen.text

    def choices(self) -> list[str]:
        """Return what stands behind a word and a colon in the frame of a question."""
        return re.findall(r"^│ [a-z0-9]{1,8}: (.*?) *│$", self.seen(), re.MULTILINE)

    async def shows(self, part: str) -> None:
        """Wait until it is on the paper."""
        await self.sitting.screen.shows(part)

    def dangers(self) -> list[str]:
        """Return the control characters that came through."""
        return self.sitting.screen.intruders

    async def leave(self) -> bool:
        """Let somebody else take the prompt."""
        self.sitting.send("/as bob")
        await self.sitting.screen.until(lambda: self.sitting.screen.last_line == "bob>", "bob>")
        return True


class DiscordStage:
    """A user on Discord who has just mentioned the bot in a channel."""

    def __init__(self, room: Stand) -> None:
        self.room = room
        self.outlet: Outlet = room.outlet
        self.owner = room.owner
        self.place = room.place

    def seen(self) -> str:
        """Return what the bot said; of a text in a file, the file and not its beginning."""
        messages = self.room.everything()
        whole = {at for at, each in enumerate(messages[1:]) if each.files}
        shown = [readable(each) for at, each in enumerate(messages) if at not in whole]
        files = [content.decode() for each in messages for _, content in each.files]
        return "\n".join(shown + files)

    def choices(self) -> list[str]:
        """Return the labels of the buttons."""
        return [label for message in self.room.everything() for label in message.buttons()]

    async def shows(self, part: str) -> None:
        """Wait until it is there."""
        await self.room.fake.until(lambda: part in self.seen(), part)

    def dangers(self) -> list[str]:
        """Return who else was pinged."""
        messages = self.room.everything()
        pinged = {each for message in messages for each in message.pings | message.edit_pings}
        return [str(each) for each in pinged - {self.room.alice.id}]

    async def leave(self) -> bool:
        """Go away: Discord tells nobody."""
        return False


class SlackStage:
    """A user in a channel of Slack."""

    def __init__(self, stand: SlackStand) -> None:
        self.stand = stand
        self.outlet: Outlet = stand.outlet
        self.owner = stand.owner
        self.place = stand.place

    def seen(self) -> str:
        """Return everything that stands there for this user, with what is in files."""
        messages = self.stand.shown() + self.stand.fake.ephemerals(self.stand.alice)
        files = [file.content or b"" for message in messages for file in message.files]
        texts = [message.readable(self.stand.alice) for message in messages]
        return "\n".join([*texts, *(content.decode() for content in files)])

    def choices(self) -> list[str]:
        """Return the labels of the buttons as this user reads them."""
        alice = self.stand.alice
        return [
            html.unescape(button.label)
            for message in self.stand.shown()
            for button in message.buttons(alice)
        ]

    async def shows(self, part: str) -> None:
        """Wait until it stands there."""
        await self.stand.fake.until(lambda: part in self.seen(), part)

    def dangers(self) -> list[str]:
        """Return whom anything would ping beside its owner, and what links hide their goal."""
        own = f"<@{self.stand.alice.id}>"
        links = [link for message in self.stand.everything() for link in message.masked_links]
        return [ping for ping in self.stand.pings() if ping != own] + [url for _, url in links]

    async def leave(self) -> bool:
        """Return that Slack keeps messages for people who are away."""
        return False


class BulletinStage:
    """A user at the bulletin board of docs/platforms.md."""

    def __init__(self, service: Bulletin, outlet: Outlet) -> None:
        self.service = service
        self.outlet = outlet
        self.owner = Identity("bulletin", "", "alice")
        self.place = Place("bulletin", "board", "general")

    def _posts(self) -> list[Post]:
        return [post for posts in self.service.channels.values() for post in posts.values()]

    def seen(self) -> str:
        """Return all posts."""
        return "\n".join(post.text for post in self._posts())

    def choices(self) -> list[str]:
        """Return the labels of the buttons."""
        return [label for post in self._posts() for label in post.buttons]

    async def shows(self, part: str) -> None:
        """Wait until it is posted."""
        await self.service.until(lambda: part in self.seen())

    def dangers(self) -> list[str]:
        """Return the control characters that came through."""
        return re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f]", self.seen())

    async def leave(self) -> bool:
        """Return that the board keeps posts for people who are away."""
        return False


@asynccontextmanager
async def bulletin_stage() -> AsyncIterator[Stage]:
    """Set up a bulletin board."""
    tasks, service = Tasks(), Bulletin("general")
    try:
        yield BulletinStage(service, BulletinOutlet(service, tasks))
    finally:
        await tasks.close()


@asynccontextmanager
async def fake_stage() -> AsyncIterator[Stage]:
    """Set up the fake outlet."""
    yield FakeStage()


@asynccontextmanager
async def terminal_stage() -> AsyncIterator[Stage]:
    """Set up a chat at a terminal."""
    async with sit_down("alice") as sitting:
        yield TerminalStage(sitting)


@asynccontextmanager
async def discord_stage() -> AsyncIterator[Stage]:
    """Set up a server on Discord."""
    async with stand() as room:
        yield DiscordStage(room)


@asynccontextmanager
async def slack_stage() -> AsyncIterator[Stage]:
    """Set up a channel of Slack."""
    async with slack_stand() as stand:
        yield SlackStage(stand)


STAGES: dict[str, Callable[[], AbstractAsyncContextManager[Stage]]] = {
    "fake": fake_stage,
    "terminal": terminal_stage,
    "slack": slack_stage,
    "discord": discord_stage,
    "bulletin": bulletin_stage,
}
