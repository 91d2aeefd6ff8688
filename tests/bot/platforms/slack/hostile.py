"""Texts that try to ping, to break out, to hide or to be too long for Slack."""

import re

from bot.agent.plain import clean
from bot.masking import without_secrets
from tests.fakes.hostile_texts import ALL, CODE, LANGUAGES, LINKS, MARKUP, PINGS


def own(user: str, group: str) -> tuple[str, ...]:
    """Return texts against Slack, some of which name somebody who is there."""
    ping = f"<@{user}> <!subteam^{group}> <!channel> <!here> <!everyone> @channel @here"
    return (*_pings(ping, user, group), *_shapes(ping))


def _pings(ping: str, user: str, group: str) -> tuple[str, ...]:
    return (
        ping,
        f"```\n{ping}\n```",
        f"``` {ping} ```",
        f"`{ping}`",
        f"~~~\n{ping}\n~~~",
        f"> {ping}",
        f"# {ping}\n- {ping}\n1. {ping}",
        f"*{ping}* _{ping}_ ~{ping}~ **{ping}**",
        f"| {ping} | b |\n|---|---|\n| {ping} | c |",
        f"&lt;@{user}&gt; &lt;!channel&gt; &#60;!here&#62; &amp;lt;!here&amp;gt;",
        f"\\<@{user}\\> \\<!channel>",
        f"<\u200b@{user}> <!\u200bchannel> <!cha\u00adnnel>",
        f"<@{user}\u2060> <\ufeff@{user}>",
        f"<@{user}|somebody else> <!subteam^{group}|@team> <!channel|nobody>",
        f"<#C012AB3CD|{ping}>",
        f"<!date^1392734382^{ping}^https://evil.example|{ping}>",
        f"<https://evil.example|{ping}> <mailto:a@evil.example|your bank>",
        f"[{ping}](https://evil.example) [x]( https://evil.example ) [x](<https://evil.example>)",
        f"![{ping}](https://evil.example/a.png)",
        f"<slack://user?id={user}> <tel:123|{ping}>",
        f"<@{user}" + " " * 9_990 + f"> <@{user}>",
        "x" * 9_998 + "<!channel>",
        "x" * 2_898 + "<!channel>",
        "x" * 73 + "<!channel>",
        ("word " * 1_990 + f"<@{user}>\n") * 3,
        f"@{user} @alice @bob @retinue @team",
    )


def _shapes(ping: str) -> tuple[str, ...]:
    return (
        "```" * 50,
        "```\n" * 50,
        "```py\nx = 1\n" * 50,
        "````\n```\n" * 50,
        "`" * 2_899 + "<!channel>",
        "**bold " * 600,
        "\u2800\u3164\u200b",
        "\n \t\u00a0\u2003\n",
        "",
        "# ",
        "> ",
        "&" * 4_000,
        "<" * 4_000,
        "<@" * 2_000,
        "&lt;" * 3_000,
        "q" * 11_000,
        "🏳️‍🌈" * 1_700,
        "e\u0301" * 6_000,
        "\u2028".join(f"line {number} {ping}" for number in range(100)),
        "# Heading " * 500,
    )


def corpus(user: str, group: str) -> tuple[str, ...]:
    """Return all texts that an outlet must stand, harmless ones among them."""
    return (*ALL, *CODE, *LANGUAGES, *own(user, group))


#: Of these no word may be missing. (The other texts pose as the runtime: such lines are left off.)
WHOLE = (*PINGS, *LINKS, *MARKUP, *CODE, *LANGUAGES)


def words_of(text: str) -> str:
    """Return the letters and digits of a text as people may see them, in order."""
    return "".join(re.findall(r"[^\W_]", without_secrets(clean(text), prose=True)))
