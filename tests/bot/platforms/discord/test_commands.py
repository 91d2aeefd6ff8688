"""The slash commands: what people pick becomes what others type."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.conversations.command_lines import CommandGroup, CommandSpec
from bot.conversations.command_table import COMMANDS
from bot.errors import BotError
from bot.platforms.base import CommandReply
from bot.platforms.discord.commands import CHANGED
from bot.values import Identity
from tests.bot.platforms.discord.hearing import CONTENT_ALLOWED, RUN, Town, people, town, who
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.inbound import FakeInboundHandler


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        opened.application_flags = CONTENT_ALLOWED
        yield opened


@pytest.fixture
async def here(fake: FakeDiscord, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Town]:
    caplog.set_level(logging.INFO, logger="bot")
    async with town(fake) as opened:
        yield opened


@pytest.mark.parametrize(
    ("command", "options", "text"),
    [
        ("subagents list", {}, "/subagents list"),
        ("subagents list", {"everyone": True}, "/subagents list all"),
        ("subagents list", {"everyone": False}, "/subagents list"),
        ("subagents stop", {"run": "all"}, "/subagents stop all"),
        ("subagents log", {"run": RUN}, f"/subagents log {RUN}"),
        ("subagents log", {"run": "my 2", "page": 3}, "/subagents log my 2 3"),
        ("subagents info", {"run": "#3"}, "/subagents info #3"),
        (
            "subagents send",
            {"run": RUN, "message": "in euros\nplease"},
            f"/subagents send {RUN} in euros\nplease",
        ),
        ("subagents send", {"run": "my run", "message": "x"}, '/subagents send "my run" x'),
        ("subagents spawn", {"task": "--count sheep"}, "/subagents spawn -- --count sheep"),
        (
            "subagents spawn",
            {
                "task": "count",
                "agent": "explore",
                "label": "all sheep",
                "model": "openai/gpt-5",
                "budget": 5_000,
                "minutes": 3,
            },
            '/subagents spawn --agent explore --label "all sheep" --model openai/gpt-5 '
            "--budget 5000 --minutes 3 -- count",
        ),
        (
            "subagents spawn",
            {"task": "count", "label": "--draft"},
            '/subagents spawn --label "--draft" -- count',
        ),
        ("subagents resume", {"run": "1a2b"}, "/subagents resume 1a2b"),
        ("subagents usage", {}, "/subagents usage"),
        ("subagents agents", {}, "/subagents agents"),
        ("subagents retry", {"run": "1a2b"}, "/subagents retry 1a2b"),
        ("subagents dismiss", {"run": "1a2b"}, "/subagents dismiss 1a2b"),
        ("retinue new", {}, "/retinue new"),
        ("retinue model", {}, "/retinue model"),
        ("retinue model", {"name": "openai/gpt-5"}, "/retinue model openai/gpt-5"),
        ("retinue usage", {}, "/subagents usage"),
        ("retinue help", {}, "/retinue help"),
        ("retinue stop", {}, "/retinue stop"),
        ("retinue undo", {}, "/retinue undo"),
        ("retinue undo", {"change": "3fa9c1"}, "/retinue undo 3fa9c1"),
        ("retinue-admin health", {}, "/retinue health"),
        ("retinue-admin pause", {"scope": "all"}, "/retinue pause all"),
        ("retinue-admin raise", {"limit": "channel", "amount": "$5"}, "/retinue raise channel $5"),
        (
            "retinue-admin audit",
            {"action": "kill", "since": "7d"},
            "/retinue audit --action kill --since 7d",
        ),
    ],
)
async def test_a_command_is_heard_as_it_is_typed_and_answered_for_the_asker_alone(
    here: Town, command: str, options: dict[str, Any], text: str
) -> None:
    here.answers(text, "As you wish.")

    asked = await (await here.fake.slash(here.alice, here.general, command, **options)).done()

    assert here.inbound.texts() == [text]
    assert (asked.text(), asked.ephemeral, asked.deferred) == ("As you wish.", True, True)


async def test_a_page_of_a_log_has_a_button_for_the_next(here: Town) -> None:
    more = "/subagents log 1a2b3c4d 2"
    here.answers(f"/subagents log {RUN}", CommandReply(text="Page 1 of 2", more=more))
    here.answers(f"/subagents log {RUN} 2", "Page 2 of 2")

    asked = await (await here.fake.slash(here.alice, here.general, "subagents log", run=RUN)).done()
    clicked = await (await here.fake.click(here.alice, asked.messages[-1], "More")).done()

    assert (clicked.text(), clicked.ephemeral) == ("Page 2 of 2", True)


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1)
names = words.map(lambda text: " ".join(text.split())).filter(bool)


def command(name: str) -> CommandSpec:
    found = COMMANDS.get(CommandGroup.RUNS, name)
    assert found is not None
    return found


@given(task=words.filter(str.strip), label=names, agent=names)
def test_what_was_picked_is_what_the_core_reads(task: str, label: str, agent: str) -> None:
    line = command("spawn").line({"task": task, "agent": agent, "label": label, "budget": "5"})

    request = command("spawn").parse(line.removeprefix("/subagents spawn").strip())

    def bare(text: str) -> str:
        # The core takes quotation marks off both ends of a value, its own included.
        return text.replace("'", "’").strip('"’')

    assert request["task"].strip() == task.strip()
    assert (bare(request["label"]), bare(request["agent"])) == (bare(label), bare(agent))
    assert (request["budget"], request.get("model")) == ("5", None)


@given(run=names)
def test_a_label_with_blanks_is_still_one_handle(run: str) -> None:
    line = command("send").line({"run": run, "message": "hello there"})

    sent = command("send").parse(line.removeprefix("/subagents send"))

    assert sent["run"].replace("'", "’") == run.replace("'", "’")
    assert sent["message"] == "hello there"


# --- completion -----------------------------------------------------------------------------------


async def test_people_are_offered_their_own_runs_only(here: Town) -> None:
    here.inbound.runs[who(here.alice)] = [(RUN, "news (running)")]
    here.inbound.runs[who(here.bob)] = [("2b3c4d5e-0000-4000-8000-000000000001", "secret")]

    for command in ("stop", "resume", "log", "info", "send", "retry", "dismiss"):
        offered = await here.fake.autocomplete(
            here.alice, here.general, f"subagents {command}", run="1a"
        )

        assert offered == [("1a2b3c4d news (running)", RUN)]
    assert await here.fake.autocomplete(here.alice, here.general, "subagents stop", run="2b") == []


async def test_no_more_is_offered_than_discord_takes(here: Town) -> None:
    here.inbound.runs[who(here.alice)] = [(f"{n:08x}{RUN[8:]}", f"{n} " * 60) for n in range(40)]

    offered = await here.fake.autocomplete(here.alice, here.general, "subagents stop", run="")

    assert len(offered) == 25
    assert max(len(name) for name, _ in offered) <= 100
    assert offered[0][1] == f"00000000{RUN[8:]}"


async def test_when_there_is_no_list_nothing_is_offered_and_it_is_logged(
    fake: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    class Away(FakeInboundHandler):
        async def run_choices(
            self, user: Identity, typed: str, *, action: str = ""
        ) -> list[tuple[str, str]]:
            raise BotError("The database is away.")

    async with town(fake, Away()) as here:
        offered = await fake.autocomplete(here.alice, here.general, "subagents stop", run="")

        assert offered == []
        assert "The database is away." in caplog.text


async def test_who_may_not_is_offered_nothing(fake: FakeDiscord) -> None:
    _, general, alice, bob = people(fake)
    async with town(fake, users=(str(bob.id),)) as here:
        here.inbound.runs[who(alice)] = [(RUN, "news")]

        assert await fake.autocomplete(alice, general, "subagents stop", run="") == []


# --- commands of another version ------------------------------------------------------------------


async def test_a_command_that_is_no_more_says_so(here: Town) -> None:
    old = next(each for each in here.fake.commands if each["name"] == "subagents")
    gone = {"type": 1, "name": "gone", "description": "Was here once", "options": []}
    old["options"].append(gone)
    here.fake.commands.append({**old, "name": "other", "options": []})

    within = await (await here.fake.slash(here.alice, here.general, "subagents gone")).done()
    whole = await (await here.fake.slash(here.alice, here.general, "other")).done()

    assert within.text() == whole.text() == CHANGED
    assert within.ephemeral
