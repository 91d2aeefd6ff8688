import asyncio

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from bot.conversations.command_lines import CommandGroup
from bot.conversations.command_table import COMMANDS
from bot.platforms.terminal.completion import CommandCompleter
from bot.platforms.terminal.state import TerminalState
from bot.platforms.terminal.texts import number_of
from bot.values import Identity, Role, short
from tests.bot.platforms.terminal.test_state import Recorder
from tests.bot.platforms.terminal.things import ALLOW, OPTIONS, RUN, person, question
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.terminal import sit_down

OTHER = "9f8e7d6c-0000-4000-8000-000000000002"


@pytest.fixture
def inbound() -> FakeInboundHandler:
    inbound = FakeInboundHandler()
    inbound.runs = {
        person("alice"): [(RUN, "news"), (OTHER, "[red]\x1b[2Jweather")],
        person("bob"): [("77777777-0000-4000-8000-000000000003", "bob's")],
    }
    return inbound


async def offered(
    inbound: FakeInboundHandler, line: str, state: TerminalState | None = None
) -> dict[str, str]:
    """Return the words offered for a line, and what is said about each."""
    if state is None:
        state = TerminalState()
        state.enter(person("alice"), Recorder())
    completions = CommandCompleter(state, inbound).get_completions_async(
        Document(line), CompleteEvent(text_inserted=True)
    )
    return {item.text: item.display_meta_text async for item in completions}


async def test_commands_are_offered_from_the_first_slash(inbound: FakeInboundHandler) -> None:
    everything = set(await offered(inbound, "/"))

    chat = [each for each in COMMANDS.of(CommandGroup.CHAT) if not each.admin]
    commands = {"/subagents", *(f"/{each.name}" for each in chat)}
    assert everything == commands | {"/quit", "/as", "/yes", "/all", "/always", "/no"}
    assert list(await offered(inbound, "/su")) == ["/subagents"]
    assert await offered(inbound, "hello /su") == {}


@pytest.mark.parametrize("role", list(Role))
async def test_every_command_is_offered_and_in_help_for_those_who_may_use_it_alone(
    inbound: FakeInboundHandler, role: Role
) -> None:
    inbound.roles = {person("alice"): role}
    offered_here = set(await offered(inbound, "/"))
    helped = COMMANDS.help("terminal", role)

    for each in COMMANDS.of(CommandGroup.CHAT):
        assert (f"/{each.name}" in offered_here) is each.is_for(role), each.name
        if each.groups[0] is CommandGroup.CHAT:
            assert (f"`/{each.name}" in helped) is each.is_for(role), each.name
    scopes = set(await offered(inbound, "/pause "))
    assert scopes == ({"all", "server", "here", "channel", "user"} if role != Role.USER else set())


async def test_users_are_offered_runs_where_admins_have_a_command_of_the_same_name(
    inbound: FakeInboundHandler,
) -> None:
    user = set(await offered(inbound, "/resume "))
    inbound.roles = {person("alice"): Role.OPERATOR}
    operator = set(await offered(inbound, "/resume "))

    assert short(RUN) in user
    assert "all" not in user
    assert "all" in operator


async def test_everything_about_runs_is_offered(inbound: FakeInboundHandler) -> None:
    assert list(await offered(inbound, "/subagents ")) == (
        [each.name for each in COMMANDS.of(CommandGroup.RUNS)]
    )


@pytest.mark.parametrize("action", ["stop", "resume", "log", "info", "send"])
async def test_ones_own_runs_are_offered_with_their_labels(
    inbound: FakeInboundHandler, action: str
) -> None:
    words = await offered(inbound, f"/subagents {action} ")

    words.pop("all", None)
    assert words == {"1a2b3c4d": "news", "9f8e7d6c": "[red]weather"}
    assert await offered(inbound, f"/subagents {action} 1a") == {"1a2b3c4d": "news"}
    assert "1a2b3c4d" in await offered(inbound, f"/subagents {action} new")


async def test_only_stop_takes_all_runs(inbound: FakeInboundHandler) -> None:
    assert "all" in await offered(inbound, "/subagents stop ")
    assert "all" not in await offered(inbound, "/subagents log ")


async def test_no_run_is_offered_where_none_is_meant(inbound: FakeInboundHandler) -> None:
    assert await offered(inbound, "/subagents list ") == {}
    assert await offered(inbound, "/subagents send 1a2b3c4d ") == {}
    assert await offered(inbound, "/subagents log 1a", TerminalState()) == {}


async def test_open_questions_are_offered(inbound: FakeInboundHandler) -> None:
    state = TerminalState()
    state.enter(person("alice"), Recorder())
    asked = question("alice", text="Shall I?")
    state.add_question(asked)
    state.add_question(question("bob"))

    asked_too = question("alice", text="May it?", choices=ALLOW)
    state.add_question(asked_too)
    state.add_question(question("alice", choices=OPTIONS, open_ended=True))

    assert await offered(inbound, "/yes ", state) == {
        number_of(asked): "Shall I?",
        number_of(asked_too): "May it?",
    }
    assert await offered(inbound, "/all ", state) == {number_of(asked_too): "May it?"}


async def test_what_is_chosen_stands_in_the_line(inbound: FakeInboundHandler) -> None:
    async with sit_down("alice", inbound=inbound) as sitting:
        sitting.type("/subagents log 1")
        await sitting.screen.shows("1a2b3c4d")
        sitting.type("\t\r")

        await sitting.inbound.until(lambda: sitting.inbound.texts() == ["/subagents log 1a2b3c4d"])


async def test_a_completion_that_fails_does_not_end_the_chat() -> None:
    failed = asyncio.Event()

    class Deaf(FakeInboundHandler):
        async def run_choices(
            self, user: Identity, typed: str, *, action: str = ""
        ) -> list[tuple[str, str]]:
            failed.set()
            raise RuntimeError("no database")

    async with sit_down("alice", inbound=Deaf()) as sitting:
        sitting.type("/subagents log 1")
        async with asyncio.timeout(5):
            await failed.wait()
        sitting.send("")

        await sitting.inbound.until(lambda: sitting.inbound.texts() == ["/subagents log 1"])
