"""A command is declared in one place, from which every platform offers, reads and shows it."""

from pathlib import Path

import pytest

from bot.conversations.command_arguments import Argument
from bot.conversations.command_lines import CommandGroup, CommandTable
from bot.conversations.command_table import COMMANDS
from bot.conversations.commands import ChatCommand, CommandCall
from bot.platforms.base import CommandReply
from bot.platforms.discord.commands import ADMINS
from bot.platforms.discord.registration import payload
from bot.subagents.requests import Caller
from bot.values import Identity, Place, Role
from db import users
from db.database import Database
from tests.bot.platforms.discord.hearing import town
from tests.bot.platforms.slack.hearing import listening
from tests.bot.platforms.terminal.test_completion import offered
from tests.fakes.clock import FakeClock
from tests.fakes.commands import command_runner
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.office import FakeOffice, caller, limits
from tests.fakes.slack.server import FakeSlack


async def greet(call: CommandCall) -> CommandReply:
    """Greet the named animal."""
    return CommandReply(text=f"Hello, {call.get('animal')}!")


GREET = ChatCommand(
    (CommandGroup.CHAT,),
    "greet",
    "Greet an animal",
    (Argument("animal", "ANIMAL", "Whom to greet", choices=(("owl", "the owl"),)),),
    handler=greet,
)


@pytest.fixture
def inbound() -> FakeInboundHandler:
    handler = FakeInboundHandler()
    handler.command_table = CommandTable((*COMMANDS.commands, GREET))
    handler.commands["/retinue greet owl"] = CommandReply(text="Hello, owl!")
    return handler


async def test_a_command_of_the_table_is_carried_out_and_in_help(
    database: Database, clock: FakeClock, alice: Identity
) -> None:
    runner = command_runner(FakeOffice(database, limits(), clock), GREET)

    for typed in ("/greet owl", "!greet owl", "/retinue greet owl"):
        assert (await runner.run(typed, caller(alice))).text == "Hello, owl!"
    missing = await runner.run("/greet", caller(alice))
    assert missing.text == "Usage: /retinue greet ANIMAL"
    assert "greet ANIMAL` – greet an animal" in (await runner.run("/help", caller(alice))).text
    assert "/retinue greet`" in (await runner.run("/unknown", caller(alice))).text


async def test_a_command_of_the_table_is_registered_and_picked_on_discord(
    inbound: FakeInboundHandler,
) -> None:
    async with FakeDiscord.open() as fake, town(fake, inbound) as here:
        retinue = next(each for each in fake.commands if each["name"] == "retinue")
        asked = await fake.slash(here.alice, here.general, "retinue greet", animal="owl")
        answered = await asked.done()

    assert "greet" in [each["name"] for each in retinue["options"]]
    assert inbound.texts() == ["/retinue greet owl"]
    assert answered.text() == "Hello, owl!"


async def test_a_command_of_the_table_is_typed_on_slack(inbound: FakeInboundHandler) -> None:
    async with FakeSlack.open() as fake, listening(fake, inbound) as here:
        asked = await fake.slash(here.alice, here.general, "/retinue", "greet owl")
        answered = await asked.done()

    assert inbound.texts() == ["/retinue greet owl"]
    assert answered.text() == "Hello, owl!"


async def test_a_command_of_the_table_is_completed_at_the_terminal(
    inbound: FakeInboundHandler,
) -> None:
    assert await offered(inbound, "/gre") == {"/greet": "Greet an animal"}
    assert await offered(inbound, "/greet ") == {"owl": "the owl"}


@pytest.mark.parametrize("command", COMMANDS.commands, ids=lambda each: each.name)
def test_every_command_has_texts_that_discord_accepts(command: ChatCommand) -> None:
    assert 1 <= len(command.description) <= 100
    for argument in command.listed:
        assert 1 <= len(argument.description) <= 100
    # An optional argument that is not an option can only be the last one.
    others = [each for each in command.arguments if not each.option]
    assert all(each.required for each in others[:-1])


def test_names_are_unique_within_a_group() -> None:
    for group in CommandGroup:
        names = [name for each in COMMANDS.of(group) for name in (each.name, *each.aliases)]
        assert len(names) == len(set(names))


def test_commands_for_admins_are_registered_apart_on_discord() -> None:
    table = CommandTable((*COMMANDS.commands, GREET))
    hidden = ChatCommand((CommandGroup.CHAT,), "hide", "Hide", handler=greet, admin=True)

    before, after = payload(table), payload(CommandTable((*table.commands, hidden)))

    assert [each for each in after if each not in before] == [after[-1]]
    assert after[-1]["name"] == ADMINS
    assert [each["name"] for each in after[-1]["options"]][-1] == "hide"


#: Commands whose required arguments are given, so that they can be carried out.
GIVEN = {"kill": "here", "send": "last hello", "spawn": "Count sheep", "raise": "me $5"}


@pytest.mark.parametrize("command", COMMANDS.commands, ids=lambda each: each.name)
async def test_every_command_works_in_the_terminal_for_those_who_may_use_it(
    database: Database, clock: FakeClock, tmp_path: Path, command: ChatCommand
) -> None:
    runner = command_runner(FakeOffice(database, limits(), clock), folder=tmp_path)
    operator = Identity("terminal", "", "root")
    place = Place("terminal", channel="root")
    words = GIVEN.get(command.name, "last" if command.run else "")
    async with database.transaction() as tx:
        await users.ensure_user(tx, operator, "Root", clock())

    for group in command.groups:
        line = f"/{group} {command.name} {words}".strip()
        found = COMMANDS.find(line)
        reply = await runner.run(line, Caller.of_user(operator, Role.OPERATOR, place))

        assert found is not None
        assert found.command is command
        assert "Usage:" not in reply.text, "GIVEN has no words for it"
        assert "There is no command" not in reply.text
        assert "is unknown" not in reply.text
