"""Every command that a text names exists where the text is read."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from bot.conversations.command_lines import CommandGroup, CommandTable
from bot.conversations.command_table import COMMANDS
from bot.conversations.commands import ChatCommand
from bot.platforms import catalog
from bot.platforms.discord.registration import payload
from bot.platforms.terminal.completion import OWN
from bot.values import Role
from skills.mcp.commands import McpCommands
from skills.mcp.connecting import ConnectCommands
from skills.mcp.servers import McpServers
from skills.mcp.sign_ins import SignIns

ROOT = Path(__file__).parents[2]
PLATFORMS = (*(kind.section for kind in catalog.PLATFORMS), catalog.TERMINAL)
#: A command of Slack itself, an error that Slack shows, and pages of our server for Slack.
OF_SLACK = {"/invite", "/subagents failed", "/slack"}
#: Absolute paths, and a path of an address.
PATHS = {"/etc", "/file", "/health", "/mnt", "/proc", "/root", "/status", "/tmp", "/usr"}
PATHS |= {"/healthz", "/metrics", "/readyz", "/skills", "/workspace"}
MENTION = re.compile(r"(?<![?\w/.:<>~*\"'\]})!-])([/!][a-z]{2,})\b(?!/|\.\w)(?: +([a-z]+)\b)?")


def literals(path: Path) -> Iterator[str]:
    """Return the texts of a module, less docstrings and what is only compared."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    described = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    unread = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, described) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for compared in nodes:
        if isinstance(compared, ast.Compare):
            unread |= {id(part) for part in ast.walk(compared)}
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in unread
        ):
            yield node.value


def slash_commands_of_discord() -> set[str]:
    return {
        f"/{group['name']} {each['name']}"
        for group in payload(CommandTable((*COMMANDS.commands, *CONNECT)))
        for each in group["options"]
    }


def slash_commands_of_slack() -> set[str]:
    manifest = yaml.safe_load((ROOT / "deploy/slack-manifest.yaml").read_text("utf-8"))
    return {each["command"] for each in manifest["features"]["slash_commands"]}


CONNECT = ConnectCommands(cast(SignIns, None), cast(McpServers, None)).commands
TABLE: CommandTable[ChatCommand] = CommandTable(
    (*COMMANDS.commands, McpCommands(cast(McpServers, None)).command, *CONNECT)
)
DISCORD, SLACK = slash_commands_of_discord(), slash_commands_of_slack()


def exists(sign: str, word: str, platform: str) -> bool:
    """Return True if a user of a platform can send a command; `word` is the word after it."""
    typed = f"{sign} {word}".strip()
    if platform == "discord" and sign.startswith("/"):
        return any(each.startswith(typed) for each in DISCORD)
    if platform == "slack" and sign.startswith("/"):
        return sign in SLACK and is_known(typed) and word != "new"
    return is_known(typed) or (platform == "terminal" and sign in {*OWN, "/exit"})


def is_known(typed: str) -> bool:
    found = TABLE.find(typed)
    return found is not None and found.command is not None


def unknown_in(text: str, platform: str) -> list[str]:
    """Return the commands in a text that do not exist on a platform."""
    return [
        f"{sign} {word}".strip()
        for sign, word in MENTION.findall(text)
        if sign not in PATHS and not exists(sign, word, platform)
    ]


def readers_of(path: Path) -> tuple[str, ...]:
    """Return the platforms whose users read what a module says."""
    parts = path.relative_to(ROOT).parts
    own = parts[2] if parts[:2] == ("bot", "platforms") and len(parts) > 3 else ""
    return (own,) if own in PLATFORMS else PLATFORMS


def test_every_command_that_the_code_names_exists_where_it_is_read() -> None:
    modules = [each for part in ("bot", "skills", "db") for each in (ROOT / part).rglob("*.py")]

    wrong = {
        f"{path.relative_to(ROOT)} on {platform}: {command}"
        for path in modules
        # The modules beside the tool name folders of the sandbox.
        if path.parent.name != "shell" or path.name == "skill.py"
        for text in literals(path)
        for platform in readers_of(path)
        for command in unknown_in(text, platform)
    }

    assert len(modules) > 200
    assert not sorted(wrong)


@pytest.mark.parametrize("platform", [*PLATFORMS, "fake"])
def test_the_help_names_only_commands_of_its_platform(platform: str) -> None:
    text = TABLE.help(platform, Role.OPERATOR)

    assert not unknown_in(text, platform)
    assert "{" not in text


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("words", ["new", "model NAME", "stop", "undo last", "help", "mcp"])
def test_a_command_is_carried_out_as_it_is_named(words: str, platform: str) -> None:
    typed = TABLE.find(TABLE.typed(words, platform))

    assert typed is not None
    assert (typed.group, f"{typed.name} {typed.words}".strip()) == (CommandGroup.CHAT, words)
    assert not unknown_in(f"`{TABLE.typed(words, platform)}`", platform)
    assert not unknown_in(f"`{TABLE.named(typed, platform)}`", platform)


def test_agents_and_pages_name_only_commands_that_exist() -> None:
    for_all = [*(ROOT / "agents").glob("*.md"), *(ROOT / "skills").glob("*.md")]
    for_all += [ROOT / "docs" / f"{name}.md" for name in ("agents", "shell", "skills")]
    readers = dict.fromkeys(for_all, PLATFORMS) | {
        ROOT / "README.md": ("terminal",),
        ROOT / "docs/discord.md": ("discord",),
        ROOT / "docs/slack.md": ("slack",),
    }

    wrong = {
        f"{page.name} on {platform}: {command}"
        for page, platforms in readers.items()
        for quoted in re.findall(r"`[/!][^`\n]+`", page.read_text("utf-8"))
        for platform in platforms
        for command in unknown_in(quoted, platform)
        if command not in OF_SLACK
    }

    assert not sorted(wrong)
