"""Words for Slack are harmless, and fit wherever they stand."""

import html
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.agent.plain import clean
from bot.platforms.base import (
    Announcement,
    CardStep,
    Choice,
    CommandReply,
    Confirmation,
    Overview,
    RunCard,
)
from bot.platforms.slack import blocks, texts
from bot.platforms.slack.sending import framed
from bot.values import Identity, Json, Place, RunStatus, StepState
from tests.bot.platforms.slack.hostile import corpus
from tests.fakes.hostile_texts import CODE, LANGUAGES
from tests.fakes.readers import slack_links, slack_pings
from tests.fakes.slack.elements import check_text
from tests.fakes.slack.limits import check_blocks, check_content
from tests.fakes.slack.surfaces import check_view

HOSTILE = corpus("U012AB3CD", "S012AB3CD")
OWNER = Identity("slack", "T012AB3CD", "U0ALICE01")
PLACE = Place("slack", "T012AB3CD", "C012AB3CD", "1700000000.000001")

#: Texts that are short and long, and full of what Slack takes for its own.
anything = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=400),
    st.lists(
        st.sampled_from(["<!channel>", "&", "<@U012AB3CD>", "](", "`", "```\n", "\n", " ", "a"]),
        max_size=400,
    ).map("".join),
    st.tuples(st.sampled_from(HOSTILE), st.integers(1, 60)).map(lambda each: each[0] * each[1]),
)


def card(text: str, status: RunStatus = RunStatus.RUNNING, **changes: object) -> RunCard:
    values: dict[str, object] = {
        "run_id": "1a2b3c4d-0000-4000-8000-000000000001",
        "owner": OWNER,
        "place": PLACE,
        "label": text,
        "agent": text,
        "tool": text,
        "line": text,
        "status": status,
        "steps": tuple(CardStep(text, state) for state in (*StepState, *StepState)),
        "tool_calls": 10,
    }
    return RunCard(**(values | changes))  # type: ignore[arg-type]


def alive(text: str) -> list[str]:
    return [found for found in slack_pings(text) if not found.startswith("<!date^")]


@given(text=anything, limit=st.integers(10, 300))
@settings(max_examples=300, deadline=None)
def test_a_text_in_a_line_fits_and_is_harmless(text: str, limit: int) -> None:
    line = texts.inline(text, limit)

    assert len(line) <= limit
    assert "\n" not in line
    assert "`" not in line
    assert alive(line) == []
    assert slack_links(line) == []
    assert html.escape(html.unescape(line), quote=False).startswith(line.rstrip("…")[:5])


@given(text=anything)
@settings(max_examples=150, deadline=None)
def test_every_part_of_a_text_fits_and_is_harmless(text: str) -> None:
    parts = texts.parts_of(texts.harmless(text), name="answer.md")

    for part in parts.texts:
        assert 0 < len(part) <= texts.MOST_CHARACTERS
        assert alive(part) == []
        assert slack_links(part) == []
        check_content({"markdown_text": part})
        check_content({"text": part})


@given(text=anything)
@settings(max_examples=150, deadline=None)
def test_a_message_with_our_own_words_around_it_fits(text: str) -> None:
    announcement = Announcement(
        key="k", place=PLACE, owner=OWNER, title=text, text=text, footer=text, maybe_repeated=True
    )
    head = f"{texts.mention(OWNER.account)} {texts.NO_THREAD} {texts.title_of(announcement)}"
    tail = texts.tail_of(announcement)

    for part in texts.parts_of(texts.harmless(text), name="answer.md").texts:
        check_blocks(list(framed(part, head=head, tail=tail).blocks))
    assert alive(head) == ["<@U0ALICE01>"]
    assert alive(tail) == []


@given(text=anything, status=st.sampled_from(list(RunStatus)))
@settings(max_examples=150, deadline=None)
def test_a_card_fits_whatever_it_says(text: str, status: RunStatus) -> None:
    shown = texts.card_text(card(text, status))

    check_blocks(list(blocks.card_blocks([card(text, status)])))
    assert alive(shown) == []
    assert alive(texts.card_notice([card(text, status)])) == []


def test_the_tool_calls_of_a_run_hang_below_its_card() -> None:
    going = card(
        "news", steps=(CardStep("glob", StepState.DONE), CardStep("a`<!here>", StepState.RUNNING))
    )

    assert texts.card_text(going).split("\n")[2:] == [
        "↳ news",
        "├ … 8 earlier",
        "├ ✓ `glob`",
        "└ ● `a'&lt;!here&gt;`",
    ]


def test_the_card_of_a_run_in_an_answer_ends_as_one_line_and_its_tool_calls() -> None:
    steps = (CardStep("glob", StepState.DONE),)
    ended = card("news", RunStatus.COMPLETED, awaited=True, steps=steps, tool_calls=1)

    head, below = texts.card_text(ended).split("\n")
    assert head == "🟢 *news* · `1a2b3c4d` · completed · `news` · 1 tool call · 0 tokens"
    assert below == "└ ✓ `glob`"


@given(text=anything)
@settings(max_examples=100, deadline=None)
def test_forms_menus_and_answers_fit_whatever_they_say(text: str) -> None:
    check_view(blocks.send_form("1a2b3c4d", remembered=text[:3_000]), "modal")
    choices = [(f"run-{number}", text) for number in range(120)]
    check_blocks(list(blocks.run_menu(choices, "/subagents stop")))
    check_blocks(list(blocks.answered_blocks("What?", text)))
    check_blocks([blocks.section("x"), *blocks.more_button(CommandReply(text="", more=text))])


@given(text=anything, count=st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_the_home_tab_fits_whatever_it_says(text: str, count: int) -> None:
    overview = Overview(
        active=tuple(card(text, run_id=f"run-{number}") for number in range(count)),
        ended=tuple(card(text, RunStatus.FAILED, run_id=f"end-{n}") for n in range(count)),
        usage=text,
        agents=(text,) * count,
    )

    home = blocks.home(overview)

    check_view(home, "home")
    assert [found for part in _mrkdwn(home["blocks"]) for found in alive(part)] == []


def _mrkdwn(found: list[Json]) -> list[str]:
    sections = [block["text"]["text"] for block in found if block["type"] == "section"]
    small = [e["text"] for block in found if block["type"] == "context" for e in block["elements"]]
    return sections + small


@pytest.mark.parametrize("text", [*CODE, *LANGUAGES])
def test_innocent_text_is_read_as_it_was_written(text: str) -> None:
    assert texts.written_out(texts.harmless(text)).replace(" (", "(") == clean(text).replace(
        " (", "("
    )


@pytest.mark.parametrize("text", ["a < b & c > d", "&lt;b&gt; &amp;amp;", "<!channel>"])
def test_a_file_holds_the_text_as_it_was(text: str) -> None:
    parts = texts.parts_of(texts.harmless(text), name="answer.md")

    assert parts.whole == f"{text}\n"


def test_our_own_markdown_is_told_in_the_older_dialect() -> None:
    assert texts.mrkdwn("**Your usage**\n- a **b** & c\n## Head") == (
        "*Your usage*\n- a *b* &amp; c\n*Head*"
    )
    assert texts.mrkdwn("2 ** 3 ** 4 and **") == "2 ** 3 ** 4 and **"


@pytest.mark.parametrize(
    "account", ["", "channel", "!channel", "U1> <!channel", "here", "u012ab3cd", "U012\n"]
)
def test_only_people_can_be_mentioned(account: str) -> None:
    assert texts.mention(account) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("One two thr", "One two "),
        ("One", ""),
        ("", ""),
        ("One.\nTwo", "One.\n"),
        ("漢字、カタカナ", "漢字、カタカナ"),
        ("漢字 xoxb-123", "漢字 "),
        ("漢字xoxb-123", "漢字"),
        ("💭 thinking about", ""),
        ("One.\n\n💭 thinking about", "One."),
        ("One.\n\n💭 is an emoji\n\nTwo thr", "One.\n\n💭 is an emoji\n\nTwo "),
    ],
)
def test_what_may_still_change_is_not_shown(text: str, shown: str) -> None:
    assert texts.stable_part(text) == shown


def test_a_text_that_grows_too_long_shows_its_end() -> None:
    words = " ".join(f"word{number:04}" for number in range(3000))

    shown = texts.newest(words)

    assert shown.startswith("…\n")
    assert shown.endswith("word2999")
    assert len(shown) <= texts.MOST_IN_EDIT
    assert texts.newest("short") == "short"


def test_a_question_says_until_when_where_its_reader_is() -> None:
    question = Confirmation(id="1", owner=OWNER, place=PLACE, text="", expires_in_seconds=600)

    assert texts.question_tail(question, 1_700_000_600) == (
        "The question ends at <!date^1700000600^{date_short_pretty} {time}|10 min from now>; "
        "no answer counts as no."
    )
    assert texts.question_tail(replace(question, open_ended=True), 1_700_000_600) == (
        "Answer here with a message, or press a button. "
        "The question ends at <!date^1700000600^{date_short_pretty} {time}|10 min from now>."
    )


@given(text=anything)
@settings(max_examples=100, deadline=None)
def test_a_question_fits_whatever_a_model_wrote_on_its_buttons(text: str) -> None:
    question = Confirmation(
        id="1",
        owner=OWNER,
        place=PLACE,
        text="",
        expires_in_seconds=600,
        choices=(Choice("1", text), Choice("2", text * 9), Choice("skip", "")),
        open_ended=True,
    )

    shown = blocks.question_blocks(question, mrkdwn="What?", tail="Soon.")

    check_blocks(list(shown))
    labels = [element["text"]["text"] for element in shown[-1]["elements"]]
    assert all(1 <= len(label) <= 70 for label in labels)
    assert not any("<" in label or ">" in label for label in labels)
    assert alive(texts.question_twin(question, "What?")) == []


def test_a_home_tab_shows_runs_with_buttons_usage_and_agents() -> None:
    overview = Overview(
        active=(card("the news", tool="", line="", agent="general"),),
        ended=(card("the end", RunStatus.COMPLETED, agent="general"),),
        usage="**Your usage**\n- Running: 1 of 3",
        agents=("`general`: for everything",),
    )

    home = blocks.home(overview)

    labels = [
        [button["text"]["text"] for button in block["elements"]]
        for block in home["blocks"]
        if block["type"] == "actions"
    ]
    assert labels == [["Stop", "Log", "Send"], ["Log"]]
    shown = "\n".join(_mrkdwn(home["blocks"]))
    for words in ("*the news*", "*the end*", "*Your usage*", "1 of 3", "`general`: for everything"):
        assert words in shown


def test_a_home_tab_without_runs_says_so() -> None:
    home = blocks.home(Overview(active=(), ended=(), usage="", agents=()))

    check_view(home, "home")
    assert "None is going on" in "\n".join(_mrkdwn(home["blocks"]))


def test_runs_with_the_same_name_can_be_told_apart_in_a_menu() -> None:
    menu = blocks.run_menu([("aaaaaaaa-1", "news"), ("bbbbbbbb-1", "news " * 40)], "/x stop")

    options = menu[0]["elements"][0]["options"]
    assert options[0]["text"]["text"] == "news · aaaaaaaa"
    assert options[1]["text"]["text"].endswith("… · bbbbbbbb")
    assert not list(check_text(options[1]["text"], 75))


def test_there_is_no_menu_without_runs() -> None:
    assert blocks.run_menu([], "/subagents stop") == ()
