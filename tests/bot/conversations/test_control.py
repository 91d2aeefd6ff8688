"""The scopes that an admin may control, and the end of a process that is drained."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from bot.conversations.access import AccessSettings
from bot.errors import BotError
from bot.subagents.requests import Caller
from bot.values import Identity, Place, Role, RunStatus
from db import pauses, turns
from db.database import Database
from db.pauses import EVERYWHERE
from db.tables import audit
from db.tables import turns as turns_table
from tests.fakes.anthropic_server import Reply
from tests.fakes.clock import FakeClock
from tests.fakes.commands import command_runner
from tests.fakes.office import FakeOffice, limits
from tests.fakes.stored import Stored
from tests.stories.stage import ADMIN, ALICE, ROOM, Play, call, stage

ROOT = Identity("discord", "", "1")
HERE = Place("discord", "9", "8")
SERVER = Place("discord", "9")
ELSEWHERE = Place("discord", "5", "6")
EVE = Identity("discord", "", "66").key


def caller(role: Role, place: Place = HERE) -> Caller:
    return Caller.of_user(ROOT, role, place)


@pytest.fixture
def office(database: Database, clock: FakeClock) -> FakeOffice:
    return FakeOffice(database, limits(), clock)


@pytest.mark.parametrize(
    ("role", "words", "user", "place"),
    [
        (Role.OPERATOR, "", "", EVERYWHERE),
        (Role.OPERATOR, "all", "", EVERYWHERE),
        (Role.OPERATOR, "ALL", "", EVERYWHERE),
        (Role.OPERATOR, "server", "", SERVER),
        (Role.OPERATOR, "here", "", HERE),
        (Role.OPERATOR, "server discord:5", "", Place("discord", "5")),
        (Role.OPERATOR, "channel discord:5:6", "", ELSEWHERE),
        (Role.OPERATOR, "channel slack:T1:C2", "", Place("slack", "T1", "C2")),
        (Role.OPERATOR, "user discord:66", EVE, EVERYWHERE),
        (Role.OPERATOR, "user <@66>", EVE, EVERYWHERE),
        (Role.OPERATOR, "user slack:T1:U2", Identity("slack", "T1", "U2").key, EVERYWHERE),
        (Role.ADMIN, "", "", SERVER),
        (Role.ADMIN, "here", "", HERE),
        (Role.ADMIN, "channel discord:9:7", "", Place("discord", "9", "7")),
        # What a user does in other servers is up to the admins there.
        (Role.ADMIN, "user <@!66>", EVE, SERVER),
    ],
)
def test_a_scope_is_read(
    office: FakeOffice, role: Role, words: str, user: str, place: Place
) -> None:
    scope = command_runner(office).control.scope(words, caller(role))

    assert (scope.user_id, scope.place) == (user, place)
    assert scope.by_operator is (role is Role.OPERATOR)


@pytest.mark.parametrize(
    ("role", "words", "reason"),
    [
        (Role.ADMIN, "all", "Only an operator"),
        (Role.ADMIN, "server discord:5", "no admin there"),
        (Role.ADMIN, "channel discord:5:6", "no admin there"),
        (Role.USER, "here", "no admin there"),
        (Role.USER, "all", "Only an operator"),
        (Role.OPERATOR, "everything", "Write `all`"),
        (Role.OPERATOR, "all of it", "Write `all`"),
        (Role.OPERATOR, "channel 8", "Write `all`"),
        (Role.OPERATOR, "user nobody", "Write `all`"),
        (Role.OPERATOR, "user irc:1", "Write `all`"),
        (Role.OPERATOR, "user", "Write `all`"),
        # Otherwise nothing would be paused, without a word.
        (Role.OPERATOR, "channel discrod:5:6", "Write `all`"),
        (Role.OPERATOR, "server slak:T1", "Write `all`"),
        (Role.OPERATOR, "user slack:U2", "Write `all`"),
        (Role.OPERATOR, "user discord:T1:66", "Write `all`"),
    ],
)
def test_a_scope_out_of_reach_is_refused_with_the_way(
    office: FakeOffice, role: Role, words: str, reason: str
) -> None:
    control = command_runner(office).control

    with pytest.raises(BotError, match=reason):
        control.scope(words, caller(role))


def test_there_is_no_server_in_direct_messages(office: FakeOffice) -> None:
    with pytest.raises(BotError, match="no server or workspace here"):
        command_runner(office).control.scope("server", caller(Role.OPERATOR, Place("discord")))


async def test_an_admin_cannot_end_the_pause_of_an_operator(office: FakeOffice) -> None:
    control = command_runner(office).control
    operator, admin = caller(Role.OPERATOR), caller(Role.ADMIN)
    await control.pause(control.scope("server", operator), operator)

    with pytest.raises(BotError, match="only an operator can end it"):
        await control.resume(control.scope("server", admin), admin)

    lifted, left = await control.resume(control.scope("server", operator), operator)
    assert (lifted, left) == (True, [])


async def test_an_admin_sees_only_the_pauses_of_the_server(office: FakeOffice) -> None:
    control = command_runner(office).control
    operator, admin = caller(Role.OPERATOR), caller(Role.ADMIN)
    for words in ("all", "here", "channel discord:5:6"):
        await control.pause(control.scope(words, operator), operator)

    _, left = await control.resume(control.scope("server", admin), admin)

    assert [each.place for each in left] == [HERE]


async def test_a_drained_process_finishes_its_work_and_keeps_new_messages(sqlite_url: str) -> None:
    play = Play(main=[call("wait_here"), Reply(text="You passed."), Reply(text="Later.")])
    access = AccessSettings(admins=("fake:root",))
    async with stage(sqlite_url, play, access=access) as it:
        await it.say(ALICE, "Pass the gate.")
        await it.gate.held(1)
        drained = await it.command(ADMIN, "/retinue drain")
        other = Place(ROOM.platform, ROOM.workspace, "yard")
        kept = await it.say(ALICE, "And now?", other)
        early = it.bot.finished.is_set()
        it.gate.opened.set()
        reply = await it.outlet.replied()
        await it.bot.finished.wait()

    assert "finishes its work" in drained.text
    assert kept is not None
    assert "Your message is kept" in kept.text
    assert not early
    assert reply.final == "You passed."
    async with stage(sqlite_url, play, access=access) as it:
        assert (await it.outlet.replied()).final == "Later."
        assert not it.bot.draining.is_set()


async def test_a_message_to_a_drained_process_has_not_begun_and_a_later_pause_holds_it(
    sqlite_url: str,
) -> None:
    play = Play(main=[call("wait_here"), Reply(text="You passed."), Reply(text="Later.")])
    access = AccessSettings(admins=("fake:root",))
    other = Place(ROOM.platform, ROOM.workspace, "yard")
    async with stage(sqlite_url, play, access=access) as it:
        await it.say(ALICE, "Pass the gate.")
        await it.gate.held(1)
        await it.command(ADMIN, "/retinue drain")
        await it.say(ALICE, "And now?", other)
        await it.command(ADMIN, "/retinue pause all")
        it.gate.opened.set()
        await it.outlet.replied()
        await it.bot.finished.wait()
        async with it.bot.database.snapshot() as tx:
            states = list(await tx.scalars(select(turns_table.c.status).order_by(turns_table.c.id)))
    async with stage(sqlite_url, play, access=access) as it:
        await it.command(ADMIN, "/retinue resume all")
        reply = await it.outlet.replied()

    assert states[-1] == "queued"
    assert reply.final == "Later."


async def test_what_admins_did_is_recorded_once_for_each_command(office: FakeOffice) -> None:
    control = command_runner(office).control
    operator = replace(caller(Role.OPERATOR), command_id="c1")
    again = replace(operator, command_id="c2")
    scope = control.scope("user discord:66", operator)

    await control.pause(scope, operator)
    await control.pause(scope, operator)
    await control.kill(control.scope("here", again), again)
    await control.resume(scope, replace(operator, command_id="c3"))

    async with office.database.snapshot() as tx:
        rows = (await tx.execute(select(audit).order_by(audit.c.id))).all()
    assert [(row.action, row.subject, row.owner_id) for row in rows] == [
        ("pause", "all", EVE),
        ("kill", "discord:9:8", ""),
        ("resume", "all", EVE),
    ]
    assert {row.user_id for row in rows} == {ROOT.key}


async def test_a_kill_without_a_scope_stops_nothing(office: FakeOffice, clock: FakeClock) -> None:
    run = await Stored(office.database, clock).run(Identity("discord", "", "66"), status="running")

    for line in ("/retinue kill", "/retinue kill yes", "/retinue kill  YES"):
        reply = await command_runner(office).run(line, caller(Role.OPERATOR))
        assert reply.failed

    after = await Stored(office.database, clock).read_run(run.id)
    assert after.cancel_requested_at is None
    assert await office.database.read(pauses.listed) == []


async def test_a_kill_stops_what_is_in_its_scope_alone(
    office: FakeOffice, clock: FakeClock
) -> None:
    stored = Stored(office.database, clock)
    mine, other = Identity("discord", "", "66"), Identity("discord", "", "77")
    runs = {status: await stored.run(mine, status=status) for status in ("queued", "running")}
    untouched = await stored.run(other, status="queued")
    turn = await stored.turn(mine, conversation := await stored.conversation(mine))
    await stored.claim_turn(conversation)
    control, operator = command_runner(office).control, caller(Role.OPERATOR)

    found = await control.kill(control.scope("user discord:66", operator), operator)

    assert (len(found.runs), [each.id for each in found.turns], found.users) == (2, [turn], 1)
    assert (await stored.read_run(runs["queued"].id)).status is RunStatus.CANCELLED
    assert (await stored.read_run(runs["running"].id)).cancel_requested_at is not None
    assert (await stored.read_run(untouched.id)).status is not RunStatus.CANCELLED
    async with office.database.snapshot() as tx:
        assert await turns.stop_requested(tx, [turn]) == [turn]
        rows = (await tx.execute(select(audit))).all()
    stopped = {turn, *(run.id for run in runs.values())}
    assert sorted((row.action, row.subject, row.owner_id) for row in rows) == sorted(
        [("kill", "all", EVE), *(("stop", each, EVE) for each in stopped)]
    )
