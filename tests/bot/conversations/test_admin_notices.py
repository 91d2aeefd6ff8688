"""Notices to admins: stored once per key, settled by the first press, sent to the right readers."""

from dataclasses import dataclass, field

import pytest
from sqlalchemy import func, select

from bot.conversations.access import AccessSettings
from bot.conversations.admin_notices import AdminNotice, AdminNotices
from bot.conversations.announcements import Announcements
from bot.errors import DeliveryError
from bot.events import AnnouncementDue, EventBus
from bot.platforms.base import CommandReply, Incoming
from bot.subagents.requests import Caller
from bot.tasks import Tasks
from bot.values import Identity, Place, Role
from db import outbox
from db.database import Database
from db.tables import admin_notices as table
from tests.fakes.clock import FakeClock
from tests.fakes.outlet import FakeOutlet
from tests.fakes.stored import Stored

ROOT, EVE = Identity("discord", "", "1"), Identity("discord", "", "2")
NOTICE = AdminNotice(
    key="barn", text="The barn burns.", buttons=(("Water", "/retinue water"), ("Run", "/run"))
)
CHANNEL = "discord:9:8"


@dataclass
class Office:
    """Notices and their delivery, with an outlet of paper."""

    database: Database
    clock: FakeClock
    access: AccessSettings
    present: Identity | None = None
    outlet: FakeOutlet = field(default_factory=lambda: FakeOutlet("discord"))
    due: list[str] = field(default_factory=list)
    carried_out: list[str] = field(default_factory=list)
    reply: CommandReply = field(default_factory=lambda: CommandReply(text="Done."))
    breaks: bool = False

    def __post_init__(self) -> None:
        events, outlets = EventBus(), {"discord": self.outlet}
        events.subscribe(AnnouncementDue, lambda event: self.due.append(event.key))
        self.notices = AdminNotices(
            access=self.access,
            outlets=outlets,
            database=self.database,
            events=events,
            present=lambda: self.present,
            now=self.clock,
        )
        self.announcements = Announcements(
            self.database,
            outlets,
            tasks=Tasks(),
            worker_id="me",
            notices=self.notices,
            now=self.clock,
        )

    async def deliver(self) -> None:
        """Deliver all that is due, and what that makes due."""
        while self.due:
            await self.announcements.deliver(self.due.pop(0))

    async def press(self, user: Identity, role: Role, choice: str = "1") -> CommandReply:
        async def carry_out(
            incoming: Incoming, text: str, role: Role, **given: object
        ) -> CommandReply:
            async with self.database.transaction() as tx:
                await given["also"](tx)  # type: ignore[operator]
            self.carried_out.append(f"{incoming.user.account} {role} {text}")
            if self.breaks:
                raise RuntimeError("The pump is broken.")
            return self.reply

        presser = Caller.of_user(user, role, Place("discord", "9", "8"))
        return await self.notices.press(presser, NOTICE.id, choice=choice, carry_out=carry_out)


@pytest.fixture
def stored(database: Database, clock: FakeClock) -> Stored:
    return Stored(database, clock)


def office(database: Database, clock: FakeClock, *admins: str, channel: str = "") -> Office:
    channels = (channel,) if channel else ()
    access = AccessSettings(admins=admins, admin_channel=channels)
    return Office(database, clock, access)


async def test_a_notice_is_sent_once_to_its_channel_for_all_readers(
    database: Database, clock: FakeClock
) -> None:
    it = office(database, clock, "discord:1", channel=CHANNEL)

    await it.notices.announce(NOTICE)
    await it.notices.announce(AdminNotice(key="barn", text="Other words."))
    await it.deliver()

    [sent] = it.outlet.announcements
    assert sent.place == Place("discord", "9", "8")
    assert (sent.owner.account, sent.text) == ("", "The barn burns.")
    assert [(each.choice.key, each.choice.label, each.line) for each in sent.buttons] == [
        ("1", "Water", "/retinue water"),
        ("2", "Run", "/run"),
    ]


async def test_without_admins_and_channel_only_the_log_has_it(
    database: Database, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    it = office(database, clock)

    await it.notices.announce(NOTICE)
    await it.notices.announce(NOTICE)

    assert it.due == []
    assert caplog.text.count("The barn burns.") == 1


async def test_an_operator_at_the_terminal_reads_what_another_process_posts(
    database: Database, clock: FakeClock
) -> None:
    it = office(database, clock, "terminal:root", "discord:1", channel="slack:T1:C1")
    it.present = Identity("terminal", "", "root")

    async with database.transaction() as tx:
        await it.notices.tell(tx, NOTICE)

    found = []
    for number in range(3):
        async with database.snapshot() as tx:
            found.append(await outbox.get(tx, f"{NOTICE.id}-{number}"))
    assert [item and item.user for item in found] == [
        Identity("slack", "T1", ""),
        it.present,
        None,
    ]


async def test_a_transaction_that_fails_sends_nothing(database: Database, clock: FakeClock) -> None:
    it = office(database, clock, channel=CHANNEL)

    async def fail() -> None:
        async with database.transaction() as tx:
            await it.notices.tell(tx, NOTICE)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()

    async with database.snapshot() as tx:
        assert await tx.scalar(select(func.count()).select_from(table)) == 0
        assert await outbox.get(tx, f"{NOTICE.id}-0") is None


async def test_the_first_admin_who_presses_carries_the_command_out(
    database: Database, clock: FakeClock, stored: Stored
) -> None:
    it = office(database, clock, "discord:1", channel=CHANNEL)
    await stored.person(ROOT)
    await it.notices.announce(NOTICE)

    refused = await it.press(EVE, Role.ADMIN)
    first = await it.press(ROOT, Role.OPERATOR)
    second = await it.press(EVE, Role.OPERATOR, "2")
    await it.deliver()

    assert refused.refused
    assert "Only an admin" in refused.text
    assert (first.text, first.refused) == ("Done.", False)
    assert second.refused
    assert second.text == "1 has pressed “Water” already."
    assert it.carried_out == ["1 operator /retinue water"]
    # It was settled before it was sent.
    assert it.outlet.announcements[0].buttons == ()


async def test_a_command_that_fails_can_be_tried_again(
    database: Database, clock: FakeClock
) -> None:
    it = office(database, clock, channel=CHANNEL)
    await it.notices.announce(NOTICE)
    it.reply = CommandReply(text="No water.", failed=True)

    failed = await it.press(ROOT, Role.OPERATOR)
    it.reply = CommandReply(text="Done.")
    done = await it.press(ROOT, Role.OPERATOR)

    assert (failed.text, failed.refused) == ("No water.", True)
    assert (done.text, done.refused) == ("Done.", False)


async def test_a_command_that_breaks_can_be_tried_again(
    database: Database, clock: FakeClock
) -> None:
    it = office(database, clock, channel=CHANNEL)
    await it.notices.announce(NOTICE)
    it.breaks = True

    with pytest.raises(RuntimeError, match="pump"):
        await it.press(ROOT, Role.OPERATOR)
    it.breaks = False
    done = await it.press(EVE, Role.OPERATOR)

    assert (done.text, done.refused) == ("Done.", False)


@pytest.mark.parametrize("choice", ["0", "3", "x", ""])
async def test_a_button_that_does_not_exist_does_nothing(
    database: Database, clock: FakeClock, choice: str
) -> None:
    it = office(database, clock, channel=CHANNEL)
    await it.notices.announce(NOTICE)

    reply = await it.press(ROOT, Role.OPERATOR, choice)

    assert reply.refused
    assert it.carried_out == []


async def test_a_blocked_delivery_is_reported_once_a_day_and_place(
    database: Database, clock: FakeClock, stored: Stored, alice: Identity
) -> None:
    it = office(database, clock, channel=CHANNEL)
    keys = [await stored.item(alice, text="Six hens."), await stored.item(alice, text="Fine.")]
    for _ in keys:
        it.outlet.fail_next("announcement", DeliveryError("It is gone.", permanent=True))

    for key in keys:
        await it.announcements.deliver(key)
    await it.deliver()

    [sent] = it.outlet.announcements
    assert "could not be delivered" in sent.text
    assert "It is gone." in sent.text
    assert "Six hens." not in sent.text


async def test_a_channel_that_refuses_is_replaced_by_the_operators(
    database: Database, clock: FakeClock
) -> None:
    it = office(database, clock, "discord:1", "discord:2", channel=CHANNEL)
    for text in ("No channel.", "No direct messages."):
        it.outlet.fail_next("announcement", DeliveryError(text, permanent=True))

    await it.notices.announce(NOTICE)
    await it.deliver()

    [sent] = it.outlet.announcements
    assert sent.owner == Identity("discord", "", "2")
    assert sent.text.startswith("The barn burns.")
    assert f"The admin channel {CHANNEL} could not be written: No channel." in sent.text
