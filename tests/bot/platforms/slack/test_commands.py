"""The slash commands: what is typed behind them is what the core hears, or is helped with."""

import logging
from collections.abc import AsyncIterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.agent.sanitizer import one_line
from bot.conversations.command_lines import CommandGroup, handle_and_rest
from bot.conversations.command_table import COMMANDS
from bot.errors import BotError
from bot.platforms.base import Announcement, CommandReply, Incoming
from bot.platforms.messaging.intake import NOT_YOU, TROUBLE
from bot.platforms.slack.actions import (
    CLOSED,
    IN_A_THREAD,
    NONE_NAMED,
    OPEN_QUOTE,
    WHICH,
)
from bot.values import Identity, Place
from tests.bot.platforms.slack.hearing import Here, listening, people
from tests.bot.platforms.slack.speaking import RUN
from tests.fakes.inbound import FakeInboundHandler
from tests.fakes.slack.answers import Answer
from tests.fakes.slack.server import FakeSlack

OTHER = "2b3c4d5e-0000-4000-8000-000000000002"


class Failing(FakeInboundHandler):
    """Cannot tell anybody's runs."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def run_choices(
        self, user: Identity, typed: str, *, action: str = ""
    ) -> list[tuple[str, str]]:
        raise self.error


@pytest.fixture
async def here(slack: FakeSlack, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Here]:
    caplog.set_level(logging.INFO, logger="bot")
    async with listening(slack) as opened:
        yield opened


def closes_its_quotes(text: str) -> bool:
    found = COMMANDS.find(text)
    assert found is not None
    return found.command is None or not found.command.leaves_quote_open(found.words)


async def typed(here: Here, command: str, text: str = "") -> Answer:
    """Let Alice type a command; return it once there is something to see."""
    return await (await here.fake.slash(here.alice, here.general, command, text)).done()


# --- what is heard --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "text", "heard"),
    [
        ("/subagents", "", "/subagents"),
        ("/subagents", "   ", "/subagents"),
        ("/subagents", "list", "/subagents list"),
        ("/subagents", "  list   all ", "/subagents list   all"),
        ("/subagents", "\tlist\u00a0", "/subagents list"),
        ("/subagents", "stop 1a2b3c4d", "/subagents stop 1a2b3c4d"),
        ("/subagents", "STOP all", "/subagents STOP all"),
        ("/subagents", "stop no such run", "/subagents stop no such run"),
        ("/subagents", "log my 2 3", "/subagents log my 2 3"),
        ("/subagents", "info #3", "/subagents info #3"),
        ("/subagents", "send 1a2b in euros", "/subagents send 1a2b in euros"),
        ("/subagents", "send 1a2b it's\nAlice", "/subagents send 1a2b it's\nAlice"),
        ("/subagents", 'send 1a2b 5" or 6"', '/subagents send 1a2b 5" or 6"'),
        ("/subagents", 'send "my run" x', '/subagents send "my run" x'),
        ("/subagents", 'SEND 1a2b a 5" nail', '/subagents SEND 1a2b a 5" nail'),
        ("/subagents", "spawn count the owls", "/subagents spawn count the owls"),
        ("/subagents", "spawn what's new?", "/subagents spawn what's new?"),
        (
            "/subagents",
            'spawn --label "barn owls" measure a 5" nail',
            '/subagents spawn --label "barn owls" measure a 5" nail',
        ),
        ("/subagents", "usage", "/subagents usage"),
        ("/subagents", "agents", "/subagents agents"),
        ("/subagents", "retry 1a2b", "/subagents retry 1a2b"),
        ("/subagents", "dismiss 1a2b", "/subagents dismiss 1a2b"),
        ("/subagents", "nonsense", "/subagents nonsense"),
        ("/retinue", "", "/retinue"),
        ("/retinue", " \n ", "/retinue"),
        ("/retinue", "model", "/retinue model"),
        ("/retinue", "usage", "/retinue usage"),
        ("/retinue", "help", "/retinue help"),
        ("/retinue", "stop", "/retinue stop"),
        ("/retinue", "stop 1a2b", "/retinue stop 1a2b"),
        ("/retinue", "undo", "/retinue undo"),
        ("/retinue", "undo last", "/retinue undo last"),
        ("/retinue", "newspapers", "/retinue newspapers"),
        ("/retinue", "what is new", "/retinue what is new"),
    ],
)
async def test_a_command_is_heard_as_it_is_typed_and_answered_for_the_asker_alone(
    here: Here, command: str, text: str, heard: str
) -> None:
    here.answers(heard, "As you wish.")

    asked = await typed(here, command, text)

    assert here.inbound.texts() == [heard]
    assert asked.text() == "As you wish."
    assert asked.ephemeral
    assert not here.fake.said(here.general)


async def test_who_and_where_go_along_and_no_thread(here: Here) -> None:
    asked = await here.fake.slash(here.alice, here.general, "/subagents", "usage")
    await here.heard()

    assert here.inbound.heard == [
        Incoming(
            event_id=f"interaction:{asked.trigger.id}",
            user=here.who(here.alice),
            user_name="alice",
            place=Place("slack", here.fake.team.id, here.general.id),
            text="/subagents usage",
        )
    ]


async def test_what_slack_escapes_is_heard_as_it_was_typed(here: Here) -> None:
    text = "spawn 1 &lt; 2 &amp;&amp; read <https://owls.example|owls.example> for <@U1|carol>"
    heard = "/subagents spawn 1 < 2 && read https://owls.example for @carol"
    here.answers(heard, "Started.")

    assert (await typed(here, "/subagents", text)).text() == "Started."


async def test_commands_that_were_given_other_names_are_told_apart(slack: FakeSlack) -> None:
    async with listening(slack, command="/owl", subagents_command="/owls") as here:
        here.answers("/subagents list", "None.")
        here.answers("/retinue list", "None: `/retinue connect x`, `/subagents`, ~/retinue log")

        assert (await typed(here, "/owls", "list")).text() == "None."
        named = "None: `/owl connect x`, `/owls`, ~/retinue log"
        assert (await typed(here, "/owl", "list")).text() == named
        assert (await typed(here, "/owls", 'stop "x')).text() == OPEN_QUOTE.format(command="/owls")


async def test_a_direct_message_names_a_command_that_was_given_another_name(
    slack: FakeSlack,
) -> None:
    async with listening(slack, command="/owl", subagents_command="/owls") as here:
        alice = here.who(here.alice)
        message = Announcement(
            key="sign-in", place=Place("slack", alice.workspace), owner=alice, title="",
            text="Send me `/retinue connect mail`.",
        )  # fmt: skip
        await here.platform.outlet.announce(message)

        (said,) = here.fake.said(here.fake.dm(here.alice))
        assert said.markdown == "Send me `/owl connect mail`."


async def test_a_long_answer_has_a_button_for_the_next_page(here: Here) -> None:
    first, second = f"/subagents log {RUN}", "/subagents log 1a2b3c4d 2"
    here.answers(first, CommandReply(text="Page 1 of 2", more=second))
    here.answers(second, "Page 2 of 2")

    page = await typed(here, "/subagents", f"log {RUN}")
    more = await (await here.fake.click(here.alice, page.posts[0], "More")).done()

    assert page.text() == "Page 1 of 2\n[More]"
    assert (more.text(), more.ephemeral) == ("Page 2 of 2", True)
    assert here.inbound.texts() == [first, second]


async def test_a_command_in_direct_messages_is_answered_there(here: Here) -> None:
    here.answers("/subagents usage", "2 of 5")
    private = here.fake.dm(here.alice)

    asked = await (await here.fake.slash(here.alice, private, "/subagents", "usage")).done()

    assert asked.text() == "2 of 5"
    assert here.inbound.heard[0].place.channel == private.id


async def test_what_another_process_carries_out_is_answered_by_that(here: Here) -> None:
    asked = await here.fake.slash(here.alice, here.general, "/subagents", "usage")
    await here.heard()
    here.answers("/subagents list", "None.")
    await typed(here, "/subagents", "list")

    assert not asked.posts


# --- what belongs into a thread -------------------------------------------------------------------


@pytest.mark.parametrize("text", ["new", "NEW", " new ", "new please", "model opus", "Model  opus"])
async def test_what_is_of_one_talk_says_how_to_do_it_in_a_thread(here: Here, text: str) -> None:
    asked = await typed(here, "/retinue", text)

    assert asked.text() == IN_A_THREAD.format(rest=text.strip())
    assert asked.ephemeral
    assert not here.inbound.heard


# --- a run that was not named ---------------------------------------------------------------------


@pytest.mark.parametrize("action", ["stop", "resume", "log", "info", "retry", "dismiss"])
async def test_without_a_run_there_is_a_menu_of_ones_own_and_the_choice_is_carried_out(
    here: Here, action: str
) -> None:
    here.inbound.runs[here.who(here.alice)] = [(RUN, "the news"), (OTHER, "owls")]
    here.inbound.runs[here.who(here.bob)] = [("3c4d5e6f", "secret")]
    here.answers(f"/subagents {action} {OTHER}", "Done.")

    asked = await typed(here, "/subagents", f" {action.upper()}  ")
    chosen = await here.fake.click(here.alice, asked.posts[0], "run:choice", choice=OTHER)
    await chosen.done()

    assert asked.ephemeral
    assert asked.text().startswith(WHICH)
    (menu,) = asked.posts[0].buttons()
    offered = [option["text"]["text"] for option in menu.element["options"]]
    assert offered == ["the news · 1a2b3c4d", "owls · 2b3c4d5e"]
    assert (chosen.text(), chosen.ephemeral) == ("Done.", True)
    assert here.inbound.texts() == [f"/subagents {action} {OTHER}"]


@pytest.mark.parametrize("action", [each.name for each in COMMANDS.commands if each.run])
async def test_who_has_no_runs_is_told(here: Here, action: str) -> None:
    asked = await typed(here, "/subagents", action)

    command = COMMANDS.get(CommandGroup.RUNS, action)
    assert command is not None
    assert (asked.text(), asked.posts[0].buttons()) == (command.without_runs, [])
    assert here.inbound.chosen_for == [action]
    assert not here.inbound.heard


async def test_a_menu_takes_a_hundred_runs_and_any_label(here: Here) -> None:
    labels = ["", "x" * 500, "<!channel>", "`*_~", "a\nb", "😀" * 90]
    runs = [(f"{n:08x}{RUN[8:]}", labels[n % len(labels)]) for n in range(150)]
    here.inbound.runs[here.who(here.alice)] = runs

    asked = await typed(here, "/subagents", "stop")

    (menu,) = asked.posts[0].buttons()
    options = menu.element["options"]
    assert [option["value"] for option in options] == [run for run, _ in runs[:100]]
    assert all(len(option["text"]["text"]) <= 75 for option in options)
    assert not asked.posts[0].pings


@pytest.mark.parametrize(
    ("error", "words"),
    [(BotError("My memory is away; try again in a minute."), None), (ValueError("a bug"), TROUBLE)],
)
async def test_when_there_is_no_list_of_runs_it_is_said_why(
    slack: FakeSlack, error: Exception, words: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(slack, Failing(error)) as here:
        asked = await typed(here, "/subagents", "stop")

        assert asked.text() == (words or str(error))
        assert ("a bug" in caplog.text) == (words is not None)


# --- a message to a run ---------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["last", RUN[:8], '"the news"'])
async def test_a_form_is_for_the_run_that_was_named_as_it_opened(here: Here, named: str) -> None:
    here.inbound.runs[here.who(here.alice)] = [(RUN, "the news")]
    here.answers(f"/subagents send {RUN} in euros", "It will read that.")

    asked = await typed(here, "/subagents", f"send {named}")
    here.inbound.runs[here.who(here.alice)].insert(0, (OTHER, "the news"))
    sent = await here.fake.submit(here.alice, asked, {"text": "in euros"})
    (told,) = await here.whispered(here.alice)

    assert asked.view is not None
    assert asked.view.title == "Message to a run"
    assert not sent.errors
    assert told.readable(here.alice) == "It will read that."
    assert told.channel is here.general
    assert here.inbound.chosen_for == ["send"]


@pytest.mark.parametrize("named", ["nothing", "x" * 3_500])
async def test_nobody_writes_a_message_to_a_run_that_is_not_going_on(
    here: Here, named: str
) -> None:
    asked = await typed(here, "/subagents", f"send {named}")

    assert asked.view is None
    assert asked.text() == NONE_NAMED.format(named=one_line(named, 60))
    assert asked.ephemeral


async def test_of_several_that_are_named_the_one_for_the_message_is_chosen(here: Here) -> None:
    here.inbound.runs[here.who(here.alice)] = [(RUN, "owls in barns"), (OTHER, "owls")]

    asked = await typed(here, "/subagents", "send owls")
    chosen = await here.fake.click(here.alice, asked.posts[0], "run:choice", choice=OTHER)
    await chosen.done()

    assert asked.text().startswith(WHICH)
    assert chosen.view is not None
    assert not here.inbound.heard


async def test_when_the_form_does_not_open_it_is_said_how_else(here: Here) -> None:
    here.inbound.runs[here.who(here.alice)] = [(RUN, "the news")]
    here.fake.fail("views.open", error="expired_trigger_id")

    asked = await typed(here, "/subagents", "send last")

    assert asked.text() == CLOSED.format(run=RUN)
    assert asked.ephemeral


# --- quotation marks ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        'stop "barn owls',
        'log my "run',
        'send "barn owls',
        'send "barn owls hello',
        'spawn --label "barn owls count',
        'spawn --label="barn owls count',
        'spawn --agent explore --label "barn owls',
        'SPAWN --label "barn owls',
    ],
)
async def test_an_open_quotation_mark_is_told_and_nothing_is_done(here: Here, text: str) -> None:
    asked = await typed(here, "/subagents", text)

    assert asked.text() == OPEN_QUOTE.format(command="/subagents")
    assert asked.ephemeral
    assert not here.inbound.heard


@pytest.mark.parametrize(
    "text",
    [
        "",
        "stop barn owl's",
        'stop "barn owls"',
        "send 1a2b it's",
        'send 1a2b a 5" nail',
        'send "barn owls" a 5" nail',
        'spawn a 5" nail',
        'spawn "a task',
        'spawn -- --label "x',
        'spawn --label owls a 5" nail',
        'spawn --label=owls a 5" nail',
        'spawn --label "barn owls" a 5" nail',
        'spawn --minutes 5 --label "barn owls" -- a 5" nail',
        "spawn --label 'barn owls' it's",
        'Spawn --label owls a 5" nail',
        "stop C:\\barn\\",
        'stop "barn\\"',
        "stop # barn",
    ],
)
def test_a_task_and_a_message_may_have_any_quotation_mark(text: str) -> None:
    assert closes_its_quotes(f"/subagents {text}")


@given(st.text() | st.text(alphabet="\"\\'#-= \n\tspawndel", max_size=60))
@example('"')
@example("spawn --")
@example('spawn --label "')
def test_no_text_breaks_the_check(text: str) -> None:
    assert closes_its_quotes(f"/subagents {text}") or text.count('"') % 2 == 1


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])).filter(str.strip)
labels = words.map(lambda text: " ".join(text.replace('"', "").split())).filter(bool)


@given(task=words, label=labels)
def test_any_task_passes_behind_whole_options_and_is_what_the_core_reads(
    task: str, label: str
) -> None:
    line = f'--label "{label}" -- {task}'
    command = COMMANDS.get(CommandGroup.RUNS, "spawn")

    assert closes_its_quotes(f"/subagents spawn {line}")
    assert command is not None
    request = command.parse(line)
    assert request["task"].strip() == task.strip()
    assert request["label"] == label.strip("'")


@given(run=labels, message=words)
def test_any_message_passes_behind_a_whole_label(run: str, message: str) -> None:
    assert closes_its_quotes(f'/subagents send "{run}" {message}')
    assert handle_and_rest(f'"{run}" {message}') == (run, message.strip())


# --- who may, and what goes wrong -----------------------------------------------------------------


@pytest.mark.parametrize("text", ["usage", "stop", "send last", 'stop "'])
async def test_who_may_not_is_told_alone_whatever_they_type(slack: FakeSlack, text: str) -> None:
    _, _, bob = people(slack)
    async with listening(slack, users=(bob.id,)) as here:
        here.inbound.runs[here.who(here.alice)] = [(RUN, "the news")]

        asked = await typed(here, "/subagents", text)

        assert (asked.text(), asked.ephemeral, asked.view) == (NOT_YOU, True, None)
        assert not here.inbound.heard


@pytest.mark.parametrize("command", ["/subagents", "/retinue"])
async def test_what_the_core_cannot_do_is_said(here: Here, command: str) -> None:
    here.inbound.failure = BotError("My memory is away; try again in a minute.")
    known = await typed(here, command, "usage")
    here.inbound.failure = ValueError("a bug")
    unknown = await typed(here, command, "usage")

    assert known.text() == "My memory is away; try again in a minute."
    assert unknown.text() == TROUBLE
