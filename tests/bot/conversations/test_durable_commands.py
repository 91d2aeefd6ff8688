"""A command survives the death of its process at every commit, and has its effect once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import pytest
from sqlalchemy import Table, select, true

from bot.conversations.command_arguments import Argument
from bot.conversations.command_lines import CommandGroup, CommandTable
from bot.conversations.commands import ChatCommand, CommandCall
from bot.conversations.durable_commands import MAX_ATTEMPTS
from bot.platforms.base import CommandReply, Incoming
from bot.values import Identity, Place
from db.database import DatabaseSettings
from db.tables import audit, commands, conversations, outbox, run_messages, subagent_runs, users
from tests.bot.conversations.hearing import Process, message, opened
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored

#: What each command changes: (table, column).
EFFECTS = (
    (subagent_runs, "label"),
    (subagent_runs, "cancelled_by"),
    (run_messages, "text"),
    (outbox, "status"),
    (conversations, "closed_at"),
    (conversations, "model"),
)
COMMANDS = (
    "/subagents spawn --label cows Count cows",
    "/subagents stop last",
    "/subagents stop all",
    "/subagents send last Hurry up",
    "/subagents retry kept",
    "/subagents dismiss kept",
    "/new",
    "/model small",
    "/stop",
)


@pytest.fixture
async def first(database_settings: DatabaseSettings, clock: FakeClock) -> AsyncIterator[Process]:
    async with opened(database_settings, clock) as one:
        yield one


@pytest.fixture
async def second(database_settings: DatabaseSettings, clock: FakeClock) -> AsyncIterator[Process]:
    async with opened(database_settings, clock) as one:
        yield one


async def given(process: Process, user: Identity) -> None:
    """Give a user two runs, a result that was not delivered, and a conversation."""
    stored = Stored(process.database, process.clock)
    kept = await stored.item(user, status="blocked")
    async with process.database.transaction() as tx:
        await tx.execute(
            subagent_runs.update()
            .where(subagent_runs.c.id == kept)
            .values(status="completed", label="kept", created_at=process.clock())
        )
        await tx.execute(users.update().values(run_counter=10))
    for label in ("sheep", "goats"):
        process.clock.advance(1)
        await stored.run(user, label=label, task=label, status="accepted")
    await stored.conversation(user)


async def effects(process: Process) -> list[list[str]]:
    """Return what all commands together have changed."""

    async def values(table: Table, column: str) -> list[str]:
        # Not what a run that was stopped announces: that is the work of others.
        here = outbox.c.title == "Over" if table is outbox else true()
        async with process.database.snapshot() as tx:
            found = await tx.scalars(select(table.c[column]).where(here))
            return sorted(str(value) for value in found)

    return [await values(*each) for each in EFFECTS]


async def recover(process: Process, *, alive: tuple[str, ...] = ()) -> None:
    """Let a process take over what dead ones have left, and be done with it."""
    durable = process.orchestrator.commands
    async with process.database.transaction() as tx:
        left = await durable.take_over(tx, [durable.worker_id, *alive], ["discord"])
    durable.carry_out_again(left)
    await process.started_turns()


async def killed_after(process: Process, said: Incoming, commits: int) -> bool:
    """Let a process die after so many commits of a command; `False` when it was done by then."""
    for _ in range(commits - 1):
        process.database.hold_next(when="commit")
    hold = process.database.hold_next(when="answer")
    hearing = asyncio.ensure_future(process.orchestrator.receive(said))
    reached = asyncio.ensure_future(hold.reached.wait())
    await asyncio.wait({hearing, reached}, return_when=asyncio.FIRST_COMPLETED)
    died = not hearing.done()
    for task in (hearing, reached):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    return died


async def uninterrupted(process: Process, said: Incoming) -> CommandReply:
    reply = await process.orchestrator.receive(said)
    assert reply is not None
    return reply


@pytest.mark.parametrize("commits", [1, 2, 3, 4])
@pytest.mark.parametrize("text", COMMANDS)
async def test_a_command_has_its_effect_once_wherever_its_process_dies(
    first: Process, second: Process, alice: Identity, bob: Identity, text: str, commits: int
) -> None:
    for user in (alice, bob):
        await given(first, user)
    said = message(alice, text, event_id="e1")

    died = await killed_after(first, said, commits)
    await recover(second)
    again = await second.orchestrator.receive(said)
    once = await effects(second)

    # The same by somebody for whom nothing went wrong: everything is there twice.
    await uninterrupted(second, message(bob, text))
    both = await effects(second)
    assert again is None
    assert_same_effect(once, both)
    assert await Stored(second.database, second.clock).count(commands) == 0
    assert len(second.told) <= int(died)
    assert len(second.told) == 1 or commits > 1


@pytest.mark.parametrize("commits", [1, 2, 3])
async def test_a_command_of_an_admin_is_audited_once_and_names_no_run_to_others_wherever_it_dies(
    first: Process, second: Process, alice: Identity, bob: Identity, commits: int
) -> None:
    await given(first, alice)
    channel = Place("discord", "guild", "general")
    async with first.database.transaction() as tx:
        await tx.execute(subagent_runs.update().values(place_workspace="guild"))
    said = message(bob, "/subagents stop sheep", event_id="e1")

    await killed_after(first, replace(said, admin=True, place=channel), commits)
    await recover(second)

    async with second.database.snapshot() as tx:
        rows = await tx.execute(select(audit.c.user_id, audit.c.action))
        assert [tuple(row) for row in rows] == [(bob.key, "stop")]
    (told,) = second.told
    assert "sheep" not in str(told)


def assert_same_effect(once: list[list[str]], both: list[list[str]]) -> None:
    """See that a second user's undisturbed command added just what the first one's had added."""
    start = [
        ["goats", "goats", "kept", "kept", "sheep", "sheep"],
        [""] * 6,
        [],
        ["blocked", "blocked"],
        ["None", "None"],
        ["", ""],
    ]
    for before, one, two in zip(start, once, both, strict=True):
        assert changes(before, one) * 2 == changes(before, two)


def changes(before: list[str], after: list[str]) -> int:
    """Return how many values are new or different."""
    left = list(after)
    for value in before:
        if value in left:
            left.remove(value)
    return len(left)


async def test_a_command_at_work_elsewhere_is_left_alone(
    first: Process, second: Process, alice: Identity
) -> None:
    await given(first, alice)
    await killed_after(first, message(alice, "/subagents send last Hurry up"), 1)

    await recover(second, alive=(first.orchestrator.commands.worker_id,))
    assert (await effects(second))[2] == []
    await recover(second)
    assert (await effects(second))[2] == ["Hurry up"]


async def test_a_process_finds_a_command_whose_commit_was_not_answered(
    first: Process, alice: Identity
) -> None:
    await given(first, alice)
    said = message(alice, "/subagents send last Hurry up", event_id="e1")
    first.database.fail_next(OSError("down"), when="answer")
    with pytest.raises(OSError, match="down"):
        await first.orchestrator.receive(said)

    await recover(first)
    assert await first.orchestrator.receive(said) is None
    assert (await effects(first))[2] == ["Hurry up"]


async def test_a_question_is_not_answered_late_for_everybody_to_read(
    first: Process, second: Process, alice: Identity
) -> None:
    await given(first, alice)
    await killed_after(first, message(alice, "/subagents info last"), 1)
    await recover(second)

    (told,) = second.told
    assert told.user == alice
    assert told.text == (
        "I was restarted before I could answer `/subagents info`. Please send it again."
    )


async def test_a_command_that_ends_its_process_twice_is_given_up_and_the_user_told(
    first: Process, second: Process, alice: Identity
) -> None:
    await given(first, alice)
    await killed_after(first, message(alice, "/subagents send last Hurry up"), 1)
    async with first.database.transaction() as tx:
        await tx.execute(commands.update().values(attempt=MAX_ATTEMPTS))
    await recover(second)

    (told,) = second.told
    assert told.place == Place("discord", "", "room", "thread", "m1")
    assert "may not have been carried out" in told.text
    assert (await effects(second))[2] == []


async def failing(call: CommandCall) -> CommandReply:
    raise ValueError("a bug")


BROKEN = ChatCommand((CommandGroup.CHAT,), "break", "Fail", handler=failing, changes=lambda _: True)


def break_commands(process: Process) -> None:
    """Give a process a command that fails."""
    durable = process.orchestrator.commands
    table = CommandTable((*durable.runner.table().commands, BROKEN))
    broken = replace(durable, runner=replace(durable.runner, table=lambda: table))
    process.orchestrator = replace(process.orchestrator, commands=broken)


async def test_a_command_that_fails_is_reported_once_and_not_repeated(
    first: Process, second: Process, alice: Identity
) -> None:
    break_commands(first)
    with pytest.raises(ValueError, match="a bug"):
        await first.orchestrator.receive(message(alice, "/break"))
    await recover(second)

    assert second.told == []
    assert await Stored(first.database, first.clock).count(commands) == 0


async def test_a_command_that_fails_after_a_restart_is_reported_to_its_user(
    first: Process, second: Process, alice: Identity
) -> None:
    break_commands(first)
    break_commands(second)
    await killed_after(first, message(alice, "/break"), 1)
    await recover(second)

    (told,) = second.told
    assert told.user == alice
    assert told.text.startswith(
        "`/retinue break` may not have been carried out: something went wrong"
    )
    assert await Stored(second.database, second.clock).count(commands) == 0


async def test_a_command_whose_skill_is_off_after_the_restart_is_given_up(
    first: Process, second: Process, alice: Identity
) -> None:
    break_commands(first)
    await killed_after(first, message(alice, "!break"), 1)
    await recover(second)

    (told,) = second.told
    assert "`!break` may not have been carried out" in told.text
    assert await Stored(second.database, second.clock).count(commands) == 0


async def test_a_stop_that_is_repeated_after_a_restart_stops_no_later_answer(
    first: Process, second: Process, alice: Identity
) -> None:
    await killed_after(first, message(alice, "/stop"), 1)
    await second.orchestrator.receive(message(alice, "Talk"))
    await recover(second)

    (told,) = second.told
    assert "Nothing is being answered" in told.text


async def test_the_words_of_a_secret_command_are_stored_nowhere(
    first: Process, alice: Identity
) -> None:
    seen: list[tuple[str, list[str]]] = []

    async def look(call: CommandCall) -> CommandReply:
        async with first.database.snapshot() as tx:
            stored = list(await tx.scalars(select(commands.c.text)))
        seen.append((call.get("words"), stored))
        return CommandReply(text="done")

    words = Argument("words", "WORDS", "Words", required=False)
    secret = ChatCommand(
        (CommandGroup.CHAT,), "whisper", "Listen", (words,), handler=look, secret=True
    )
    durable = first.orchestrator.commands
    table = CommandTable((*durable.runner.table().commands, secret))
    listening = replace(durable, runner=replace(durable.runner, table=lambda: table))
    first.orchestrator = replace(first.orchestrator, commands=listening)

    await first.orchestrator.receive(message(alice, "/retinue whisper canary"))

    assert seen == [("canary", ["/retinue whisper"])]
