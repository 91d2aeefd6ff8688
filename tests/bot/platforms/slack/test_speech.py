"""What people say on Slack, as they meant it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.platforms.messages import Quoted
from bot.platforms.messaging.texts import WORDS
from bot.platforms.slack.messages import (
    bypasses_queue,
    is_from_user,
    mentions,
    mentions_another,
    quoted_in,
    spoken,
)
from bot.values import Json
from tests.fakes.slack.people import escaped

ME = "U0ME"

#: Pieces of which Slack's texts are made, and of which they never should be.
PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *("<", ">", "&", "|", "@", "#", "!", "^", ":", ",", " ", "\n"),
                *("&lt;", "&gt;", "&amp;", "&amp;lt;", "<@U0ME>", "<@U0ME|me>", "<@U2>"),
                *("<!channel>", "<!subteam^S1|@devs>", "<#C1|town>", "<https://a.example|b>"),
                *("<!date^1^{date}|today>", "mailto:", "tel:", "USLACKBOT"),
            ]
        ),
        st.text(max_size=5),
    ),
    max_size=12,
).map("".join)


# --- whether somebody said it ---------------------------------------------------------------------


@pytest.mark.parametrize("subtype", [None, "", "file_share", "thread_broadcast", "me_message"])
def test_people_say_things_in_some_ways(subtype: str | None) -> None:
    assert is_from_user({"user": "U1", "text": "hello", "subtype": subtype})


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"user": None, "text": "hello"},
        {"user": "", "text": "hello"},
        {"text": "hello", "subtype": "bot_message", "bot_id": "B1"},
        {"user": "U1", "text": "hello", "bot_id": "B1"},
        {"user": "U1", "text": "hello", "hidden": True},
        {"user": "USLACKBOT", "text": "You have been removed from #town by <@U1>"},
        *(
            {"user": "U1", "subtype": subtype, "text": "something"}
            for subtype in (
                *("message_changed", "message_deleted", "message_replied", "channel_join"),
                *("channel_topic", "bot_add", "bot_message", "tombstone", "reminder_add"),
                *("assistant_app_thread", "huddle_thread", "pinned_item", "sh_room_created"),
                *("slackbot_response", "ekm_access_denied", "something_new"),
            )
        ),
    ],
)
def test_everything_else_was_said_by_nobody(event: Json) -> None:
    assert not is_from_user(event)


# --- to whom --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [
        ("<@U0ME>", True),
        ("so, <@U0ME|retinue>, what?", True),
        ("<@U0ME2>", False),
        ("<@U0>", False),
        ("@U0ME", False),
        ("&lt;@U0ME&gt;", False),
        ("<#U0ME>", False),
        ("", False),
    ],
)
def test_a_mention_is_one_of_the_very_account(text: str, is_meant: bool) -> None:
    assert mentions(text, ME) is is_meant


@pytest.mark.parametrize(
    ("text", "to_another"),
    [
        ("<@U2> wait", True),
        (" \n<@W2|bob> wait", True),
        ("<@U0ME2> wait", True),
        ("<@U0ME> and <@U2>", True),
        ("wait, <@U2>", True),
        ("<!here> wait", True),
        ("wait, <!subteam^S1>", True),
        ("<@U0ME> wait", False),
        ("<https://example.org>", False),
        ("", False),
    ],
)
def test_what_mentions_another_is_for_them(text: str, to_another: bool) -> None:
    assert mentions_another(text, ME) is to_another


# --- what has no place in the line of messages ----------------------------------------------------


@pytest.mark.parametrize("word", sorted(word for words in WORDS.values() for word in words))
def test_an_answer_in_a_word_waits_for_nothing(word: str) -> None:
    assert bypasses_queue(word)
    assert bypasses_queue(f"{word.upper()} 0a1b2c.")


@pytest.mark.parametrize("text", ["/subagents list", "!retinue", "subagents stop all"])
def test_a_command_waits_for_nothing(text: str) -> None:
    assert bypasses_queue(text)


@pytest.mark.parametrize(
    "text", ["", "yesterday it rained", "allow me a question", "ok, and then?", "/ 2", "no no"]
)
def test_any_other_message_waits_in_line(text: str) -> None:
    assert not bypasses_queue(text)


# --- what -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<@U0ME> hello", "hello"),
        ("<@U0ME|retinue>, <@U0ME>: hello", "hello"),
        (" <@U0ME>\nhello", "hello"),
        ("<@U0ME>!subagents list", "!subagents list"),
        ("hello <@U0ME> ", "hello"),
        ("hello\n<@U0ME> <@U0ME|me>", "hello"),
        ("<@U0ME>", ""),
        ("<@U0ME> <@U0ME>", ""),
        ("  ", ""),
        ("ask <@U0ME> or <@U2>", "ask @U0ME or @U2"),
        ("<@U0ME2> hello", "@U0ME2 hello"),
        ("hello <@U0ME>?", "hello @U0ME?"),
    ],
)
def test_the_bots_name_is_taken_off_what_is_said_to_it(text: str, left: str) -> None:
    assert spoken(text, ME) == left


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("<@U2|bob>", "@bob"),
        ("<@U2|@bob>", "@bob"),
        ("<@U2|>", "@U2"),
        ("<#C1|town>", "#town"),
        ("<#C1>", "#C1"),
        ("<#C1|>", "#C1"),
        ("<!here>", "@here"),
        ("<!channel|channel>", "@channel"),
        ("<!everyone|@everyone>", "@everyone"),
        ("<!subteam^S1|@devs>", "@devs"),
        ("<!subteam^S1>", "@S1"),
        ("<!date^1392734382^{date} at {time}|February 18th>", "February 18th"),
        ("<!date^1392734382^{date}^https://a.example/|February 18th>", "February 18th"),
        ("<https://a.example/?b=1&amp;c=2>", "https://a.example/?b=1&c=2"),
        ("<https://a.example/page|a.example/page>", "https://a.example/page"),
        ("<https://a.example|the &lt;best&gt; page>", "the <best> page (https://a.example)"),
        ("<https://a.example|a|b>", "a|b (https://a.example)"),
        ("<mailto:bob@a.example|bob@a.example>", "bob@a.example"),
        ("<mailto:bob@a.example|write to Bob>", "write to Bob (bob@a.example)"),
        ("<tel:5551234|5551234>", "5551234"),
        ("<tel:5551234|555-1234>", "555-1234 (5551234)"),
        ("a &lt; b &amp;&amp; b &gt; c", "a < b && b > c"),
        ("&lt;!channel&gt;", "<!channel>"),
        ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("&amp;amp;", "&amp;"),
        ("x &lt;@U0ME&gt; y", "x <@U0ME> y"),
        ("<>", ""),
        ("<|>", ""),
        ("a <b", "a <b"),
        ("<<!here>>", "<@here>"),
        ("<not\nmarkup>", "<not\nmarkup>"),
        ("*bold* `code` ~gone~", "*bold* `code` ~gone~"),
    ],
)
def test_markup_reads_as_people_saw_it(text: str, seen: str) -> None:
    assert spoken(text, ME) == seen


@given(st.text())
def test_what_people_typed_comes_out_as_they_typed_it(typed: str) -> None:
    assert spoken(escaped(typed), ME) == typed.strip()


@given(st.text(alphabet=st.characters(exclude_characters="<>&")))
def test_plain_words_stay_as_they_are_however_often(text: str) -> None:
    once = spoken(text, ME)

    assert spoken(once, ME) == once == text.strip()


@given(PIECES)
def test_no_text_is_too_odd(text: str) -> None:
    said = spoken(text, ME)

    assert said == said.strip()
    assert isinstance(mentions(text, ME), bool)
    assert isinstance(mentions_another(text, ME), bool)


@given(PIECES)
def test_whoever_speaks_to_the_bot_says_the_same_as_without_its_name(text: str) -> None:
    for name in ("<@U0ME>", "<@U0ME|retinue>"):
        assert spoken(f" {name} {text}", ME) == spoken(f"{name}: {text}", ME)


@pytest.mark.parametrize("piece", [" ", "\n", "<@U0ME> ", "<", "&lt;", "<@U2> ", "<@U0ME|"])
def test_a_text_as_long_as_slack_allows_takes_no_time(piece: str) -> None:
    text = f"a{piece * (40_000 // len(piece))}b"
    began = time.process_time()

    spoken(text, ME)

    assert time.process_time() - began < 0.5


def test_shared_messages_and_link_previews_are_quoted_content() -> None:
    shared = {"is_share": True, "author_name": "Bob", "text": "I am the &lt;boss&gt;."}
    preview = {"title": "Sheep", "from_url": "https://sheep.example", "fields": [{"value": "6"}]}
    bare = {"fallback": "A picture"}

    found = quoted_in({"attachments": [shared, preview, bare, {}]}, "U0BOT")

    assert found == (
        Quoted("shared", "Bob\nI am the <boss>."),
        Quoted("link_preview", "Sheep\n: 6"),
        Quoted("link_preview", "A picture"),
    )
