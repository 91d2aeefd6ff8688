"""Markdown on Discord and Slack: code is unchanged, links are honest, nobody is pinged."""

import html

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bot.agent.dialects import for_discord, for_slack, in_discord_line, in_slack_line
from bot.platforms.messaging.splitting import split
from tests.fakes.readers import discord_finds, discord_pings, slack_links, slack_pings

CODE = (
    "List<@Nullable String> names;",
    "fns[0](x)",
    "fns[0](self.x)",
    'print("[a](b)")',
    "print('[a](https://b.example)')",
    "me@here.com",
    "@channel @everyone @here",
    "<@123456789012345678> <@&1> <#1> <!channel> <!subteam^S012AB3CD>",
    "a < b && c > d  # **kwargs, __init__, ~~x~~",
    "curl https://example.com/x?a=1&b=2",
    "&lt;b&gt;",
    "\\*escaped\\*",
    "# no heading",
    "| a | b |",
)

#: Fragments of code; what could misread it stands around it.
CODE_LINES = st.lists(
    st.lists(
        st.sampled_from(
            [*CODE, " ", "x", "@here", "<@1>", "](x)", "`", "``", "[", "<", ">", "\\", "*"]
        ),
        min_size=1,
        max_size=4,
    ).map("".join),
    min_size=1,
    max_size=6,
).map("\n".join)
PROSE = st.lists(
    st.sampled_from(
        ["Look", " ", "**", "`", "``", "<", "_", "[", "](", "@here", "<@1>", "\n", "||", "\\", "> "]
    ),
    max_size=8,
).map("".join)


@pytest.mark.parametrize("code", CODE)
@pytest.mark.parametrize(
    "shape", ["`{}`", "Look at `{}`.", "`` {} ``", "```py\n{}\n```", "a\n```\n{}\n```\nb"]
)
def test_code_is_shown_as_it_is_written(code: str, shape: str) -> None:
    text = shape.format(code)

    assert for_discord(text).replace("``", "`") == text.replace("``", "`")
    assert html.unescape(for_slack(text)) == text
    assert html.unescape(for_slack(text, older=True)) == text


@given(before=PROSE, code=CODE_LINES, after=PROSE)
@settings(max_examples=300, deadline=None)
def test_code_in_a_fence_is_the_same_after_any_text(before: str, code: str, after: str) -> None:
    text = f"{before}\n```py\nstart\n{code}\nend\n```\n{after}"
    if "```" in code or "```" in before:
        return

    assert f"```py\nstart\n{code}\nend\n```" in for_discord(text)
    assert f"```py\nstart\n{code}\nend\n```" in html.unescape(for_slack(text))


@given(code=CODE_LINES, limit=st.integers(60, 200))
@settings(max_examples=200, deadline=None)
def test_a_fence_that_is_split_stays_code_in_every_message(code: str, limit: int) -> None:
    lines = "x = 1\n" * 9 + code.replace("`", "")
    text = f"Look:\n```py\n{lines}\n```"

    for part in split(for_discord(text), limit):
        assert part.startswith(("Look:", "```py\n"))
        assert discord_pings(part) == []
        assert discord_finds(part, "masked") == []


@pytest.mark.parametrize(
    ("text", "discord", "slack"),
    [
        ("1. Run:\n   ```sh\n   ls\n     -la\n   ```", "1. Run:\n```sh\nls\n  -la\n```", ""),
        ("- ```\n  x\n  ```", "•\n```\nx\n```", ""),
        ("> ```\n> x\n> ```\n> y", "```\nx\n```\n> y", ""),
        ("~~~~js\nx\n~~~~", "```js\nx\n```", ""),
        ("````md\n```\nx\n```\n````", "```md\n‵‵‵\nx\n‵‵‵\n```", ""),
        ("```js title\nx\n```", "```js\ntitle\nx\n```", ""),
        ("```{r}\nx\n```", "```\n{r}\nx\n```", ""),
        ("```py\nx", "```py\nx\n```", ""),
        ("a\n```\n```\nb", "a\nb", ""),
        ("a ` b", "a \\` b", "a ` b"),
        ("```x```", "`x`", "```x```"),
        ("`` a`b ``", "`` a`b ``", ""),
    ],
)
def test_readers_agree_about_what_is_code(text: str, discord: str, slack: str) -> None:
    assert for_discord(text) == discord
    assert for_slack(text) == (slack or discord)


@pytest.mark.parametrize(
    ("text", "discord", "slack"),
    [
        ("[docs](https://x.example/a)", "[docs](<https://x.example/a>)", ""),
        ("[`f`](https://x.example)", "[`f`](<https://x.example>)", ""),
        ("![a](https://x.example)", "[a](<https://x.example>)", ""),
        ("<https://x.example>.", "<https://x.example>.", "https://x.example."),
        ("a<https://x.example>b", "a<https://x.example>b", "a https://x.example b"),
        ("https://x.example/a.", "<https://x.example/a>.", "https://x.example/a."),
        ("(https://x.example/a_(b))", "(<https://x.example/a_(b)>)", "(https://x.example/a_(b))"),
        ("https://x.example/a。次", "<https://x.example/a>。次", "https://x.example/a。次"),
        ("「https://x.example」", "「<https://x.example>」", "「https://x.example」"),
        (
            "https://x.example/你，好。",
            "<https://x.example/你，好>。",
            "https://x.example/你，好。",
        ),
        ("https://x@here", "<https://x@here>", "https://x@ here"),
        (
            "[@here](https://x.example)",
            "[@ here](<https://x.example>)",
            "[@ here](https://x.example)",
        ),
        ("[a]\n\n[a]: /b.c", "[a]\n\n[a]: /b.c", "[a]\n\n[a] : /b.c"),
        ("Look @channel", "Look @channel", "Look @ channel"),
        ("me@here.com", "me@here.com", "me@here.com"),
        ("https://x.example/@here", "<https://x.example/@here>", "https://x.example/@here"),
        ("> said\n> more", "> said\n> more", "> said\n> more"),
        ("a > b", "a > b", "a &gt; b"),
        ("f[0](x)", "f[0](x)", "f[0] (x)"),
        ("List<@Nullable String>", "List<@Nullable String>", "List&lt;@Nullable String&gt;"),
    ],
)
def test_links_addresses_and_quotes_are_shown_as_such(text: str, discord: str, slack: str) -> None:
    assert for_discord(text) == discord
    assert for_slack(text) == (slack or discord.replace("<", "").replace(">", ""))


@pytest.mark.parametrize(
    ("text", "discord"),
    [
        ("[https://x.example](https://x.example/)", "<https://x.example/>"),
        (
            "[at https://x.example](https://x.example/a)",
            "[at <https://x.example>] (<https://x.example/a>)",
        ),
        ("[x.example](https://x.example/a)", "[x.example](<https://x.example/a>)"),
    ],
)
def test_a_label_with_an_address_is_no_label_on_discord(text: str, discord: str) -> None:
    assert for_discord(text) == discord
    assert for_slack(text) == text


def test_an_address_that_is_its_own_label_is_shown_once() -> None:
    text = "See [https://x.example](https://x.example)b"

    assert for_slack(text, links=False) == "See https://x.example b"
    assert for_slack(text, older=True) == "See https://x.example b"
    assert in_discord_line(text) == "See <https://x.example>b"


@pytest.mark.parametrize(
    "link",
    [
        "[https://bank.example](https://evil.example)",
        "[bank.example](https://evil.example)",
        "[www.bank.example/login](https://evil.example)",
        "[b**ank.exam**ple](https://evil.example)",
        "[bank。example](https://evil.example)",
        "[me@bank.example](https://evil.example)",
        "[10.0.0.1](https://evil.example)",
        "[bank](https://bank.example@evil.example)",
        "[ ](https://evil.example)",
        "[bank.example `x`](https://evil.example)",
        "[a [b] c](https://evil.example)",
        "[a](<https://evil.example> 'title')",
    ],
)
def test_a_label_that_misleads_stands_beside_its_address(link: str) -> None:
    fence = f"```\n{link}\n```"
    for text in (
        link,
        f"`{link.replace('`', '')}`",
        f"**[x**\n{fence}",
        f"**\n{fence}\nx\n{fence}",
    ):
        assert "](" not in for_discord(text)
    assert "](" not in for_slack(link)
    assert "](" not in for_slack(f"`{link.replace('`', '')}`")
    assert "evil.example" in for_discord(link)


def test_no_label_stands_for_an_address_where_every_address_has_to_be_seen() -> None:
    assert for_discord("[a](https://x.example)", links=False) == "[a] (<https://x.example>)"
    assert for_slack("[a](https://x.example)", links=False) == "[a] (https://x.example)"
    assert in_discord_line("[a](https://x.example)") == "[a] (<https://x.example>)"
    assert in_slack_line("> [a](https://x.example)") == "&gt; [a] (https://x.example)"


def test_headings_and_tables_become_what_is_there() -> None:
    text = "#### Why **so**\n| a | b |\n|---|---:|\n| `x` | [y](https://z.example) |\n\nEnd"

    assert for_discord(text) == (
        "**Why so**\n```\na | b\n--+----------------------\nx | y (https://z.example)\n```\n\nEnd"
    )
    assert for_slack(text) == text
    assert for_slack(text, older=True).startswith("**Why so**\n```\na | b\n".replace("**", "*"))


def test_code_in_a_table_is_shown_as_it_is_written() -> None:
    text = (
        "| a | b |\n|---|---|\n| `__init__` | `**kwargs` |\n| ```` ``` ```` | `[a](b)` |\n"
        "| **x__y** | __z__ ` |\n| [`__d__`](https://x.example) | `a<b>` |"
    )
    table = (
        "```\na                         | b\n--------------------------+---------\n"
        "__init__                  | **kwargs\n‵‵‵                       | [a](b)\n"
        "x__y                      | z `\n__d__ (https://x.example) | a<b>\n```"
    )

    assert for_discord(text) == table
    assert html.unescape(for_slack(text, older=True)) == table
    assert "a&lt;b&gt;" in for_slack(text, older=True)


def test_columns_of_wide_letters_are_aligned() -> None:
    text = "| 名 | b |\n|---|---|\n| abc | 1 |\n| 日本 | 2 |"

    assert for_discord(text) == "```\n名   | b\n-----+--\nabc  | 1\n日本 | 2\n```"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("## Use `a_b` now", "*Use `a_b` now*"),
        ("**use `f(**x)`** and **y**", "*use `f(**x)`* and *y*"),
        ("`**x**` and https://x.example/**a**", "`**x**` and https://x.example/**a**"),
    ],
)
def test_bold_text_may_hold_code_in_the_older_dialect(text: str, shown: str) -> None:
    assert for_slack(text, older=True) == shown


def test_a_wide_table_is_a_list_on_discord() -> None:
    text = f"| a | b | c |\n|--|--|--|\n| **x** | {'w' * 80} |  |\n| y | `z` | @here |"

    assert for_discord(text) == f"- **x** · b: {'w' * 80}\n- y · b: `z` · c: @ here"


def test_text_that_grows_keeps_its_beginning_on_slack() -> None:
    text = (
        "Look [at](https://x.example) `a b`:\n```py title\nfns[0](x)  # @channel\n\nz\n```\n> End"
    )
    whole = for_slack(text, growing=True)

    ends = [at for at, letter in enumerate(text) if letter.isspace()]
    assert [for_slack(text[:at], growing=True) for at in ends if at > 0][-1].startswith("Look")
    for at in ends:
        assert whole.startswith(for_slack(text[: at + 1], growing=True).rstrip()), text[: at + 1]


@given(st.text(alphabet="`~<>[]()*_|\\@:/ \nahttpsevi.xmlr1#-", max_size=80))
@example("[_.aa")
@example("[1.aa.1")
@example("`\n``[`1`")
@settings(max_examples=500, deadline=None)
def test_no_punctuation_pings_or_misleads(text: str) -> None:
    for fitting in (text, f"[bank.example{text}](https://evil.example)", f"{text}<@1>@here"):
        discord, slack = for_discord(fitting), for_slack(fitting)
        assert discord_pings(discord) == []
        assert discord_finds(discord, "masked") == []
        assert slack_pings(slack) == []
        assert slack_links(slack) == []
        assert "<" not in slack
