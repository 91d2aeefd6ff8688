"""Texts that try to ping, to break out, to hide or to be too long for Discord."""

import re

from bot.agent.plain import clean
from bot.masking import without_secrets
from tests.fakes.hostile_texts import ALL, CODE, LANGUAGES, LINKS, MARKUP, PINGS

_PING = "<@{0}> <@!{0}> <@&{0}> <#{0}> @everyone @here"


def own(victim: int) -> tuple[str, ...]:
    """Return texts against Discord, some of which name somebody who is there."""
    ping = _PING.format(victim)
    return (*_pings(ping, victim), *_shapes(ping))


def _pings(ping: str, victim: int) -> tuple[str, ...]:
    return (
        ping,
        f"```\n{ping}\n```",
        f"``` {ping} ```",
        f"`{ping}`",
        f"`` ` {ping} ``",
        f"~~~\n{ping}\n~~~",
        f"> {ping}\n>>> {ping}",
        f"-# {ping}\n# {ping}",
        f"||{ping}||",
        f"**{ping}** __{ping}__ ~~{ping}~~",
        f"\\<@{victim}> \\@everyone",
        f"<\u200b@{victim}> @\u200beveryone <@\u200b{victim}>",
        f"<@{victim}\u2060> <\ufeff@{victim}>",
        f"\u202e>{str(victim)[::-1]}@<\u202c",
        f"&lt;@{victim}&gt; &#60;@{victim}&#62;",
        f"<@{victim}" + " " * 1990 + f"> <@{victim}>",
        "x" * 1998 + "@everyone",
        "x" * 1997 + f"<@{victim}>",
        ("word " * 390 + f"<@{victim}>\n") * 3,
        f"</cmd:{victim}> </subagents stop:{victim}> <id:customize> <t:0:R> <a:x:{victim}>",
        f"[{ping}](https://evil.example) [x]( https://evil.example )",
        f"[x](discord://-/channels/{victim})",
    )


def _shapes(ping: str) -> tuple[str, ...]:
    return (
        "https://evil.example/" + "a" * 2100 + ")",
        "```" * 50,
        "```\n" * 50,
        "```py\nx = 1\n" * 50,
        "````\n```\n" * 50,
        "\n".join(f"{' ' * depth}- ```\n{' ' * depth}  @everyone" for depth in range(50)),
        "`" * 1999 + "@everyone",
        "**bold " * 600,
        "||" * 1500,
        "\u0627\u0644\u0633\u0644\u0627\u0645 \u202e" + ping + " \u05e9\u05dc\u05d5\u05dd",
        "\u2800\u3164\u200b",
        "\u2800" * 30,
        "\n \t\u00a0\u2003\n",
        "",
        "-# ",
        "# ",
        ">>> ",
        "\\" * 99,
        "L" * 4000,
        "🏳️‍🌈" * 700,
        "e\u0301" * 3000,
        "@" * 4000,
        "<" * 4000,
        "<@" * 2000,
        "\u2028".join(f"line {number} @everyone" for number in range(400)),
    )


def corpus(victim: int) -> tuple[str, ...]:
    """Return all texts that an outlet must stand, harmless ones among them."""
    return (*ALL, *CODE, *LANGUAGES, *own(victim))


#: Of these no word may be missing. (The other texts pose as the runtime: such lines are left off.)
WHOLE = (*PINGS, *LINKS, *MARKUP, *CODE, *LANGUAGES)


def words_of(text: str) -> str:
    """Return the letters and digits of a text as people may see them, in order."""
    return "".join(re.findall(r"[^\W_]", without_secrets(clean(text), prose=True)))
