"""`retinue setup` asks what is needed, checks it against the services, and writes it down."""

import asyncio
import os
import pty
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from bot.__main__ import build
from bot.config.loading import load
from bot.console import ENV_FILE, read_variables
from bot.errors import ConfigError
from bot.platforms.discord.settings import DiscordSettings
from bot.setup import SetupAnswers
from tests.docs.pages import ROOT
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.discord.things import User
from tests.fakes.slack.server import FakeSlack


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord.open() as opened:
        yield opened


def operator_of(fake: FakeDiscord) -> User:
    guild, root = fake.add_guild("Farm"), fake.add_user("root")
    fake.join(guild, root)
    return root


def modes_in(folder: Path) -> dict[str, int]:
    return {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}


def begin(folder: Path, fake: FakeDiscord) -> Path:
    """Write a configuration from before, which leads to the fake."""
    file = folder / "config.yaml"
    before = {"discord": {"api_url": fake.api_url, "gateway_url": fake.gateway_url}}
    file.write_text(yaml.safe_dump(before | {"logging": {"level": "debug"}}))
    return file


async def invoke(file: Path, *options: str) -> tuple[int, str]:
    """Run the command in a thread: the fakes answer in this one."""
    line = ["setup", "--config", str(file), *options]
    here, environ = Path.cwd(), dict(os.environ)
    try:
        result = await asyncio.to_thread(
            CliRunner(env={"RETINUE_HOME": str(file.parent)}).invoke, build(), line
        )
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(environ)
    return result.exit_code, result.output + str(result.exception or "")


async def test_answers_are_checked_and_written_and_the_admin_gets_a_first_message(
    discord: FakeDiscord, tmp_path: Path
) -> None:
    file, root = begin(tmp_path, discord), operator_of(discord)
    before = file.read_text()

    code, told = await invoke(
        file,
        "--yes",
        "--provider=offline",
        f"--discord-token={discord.token}",
        f"--admin=discord:{root.id}",
        "--database=sqlite:///data/mine.db",
    )

    assert code == 0, told
    assert "✓ Discord    the token is" in told
    assert discord.token not in told
    (greeting,) = discord.messages(discord.dm(root))
    assert "I am set up" in greeting.text()
    env = tmp_path / ENV_FILE
    assert env.stat().st_mode & 0o777 == 0o600
    assert env.read_text() == f"DISCORD_TOKEN={discord.token}\n"
    assert discord.token not in file.read_text()
    config = load(file, read_variables(env))
    assert config.section(DiscordSettings).configured
    assert config.access.admins == (f"discord:{root.id}",)
    assert config.database.url.endswith("data/mine.db")
    assert config.logging.level == "debug"
    former = tmp_path / "config.yaml.before-setup"
    assert former.read_text() == before


async def test_run_again_it_keeps_what_is_not_answered(
    discord: FakeDiscord, tmp_path: Path
) -> None:
    file, root = begin(tmp_path, discord), operator_of(discord)
    await invoke(file, "--yes", f"--discord-token={discord.token}", "--no-check")

    code, told = await invoke(file, "--yes", f"--admin=discord:{root.id}")

    assert code == 0, told
    assert read_variables(tmp_path / ENV_FILE) == {"DISCORD_TOKEN": discord.token}
    config = load(file, read_variables(tmp_path / ENV_FILE))
    assert config.access.admins == (f"discord:{root.id}",)
    assert discord.messages(discord.dm(root))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--discord-token=wrong"], "press Reset Token"),
        (["--admin=irc:someone"], "is no account"),
        (["--provider=gemini"], "--provider is one of"),
        (["--database=mysql://x"], "database"),
    ],
)
async def test_a_wrong_answer_is_named_and_nothing_is_written(
    discord: FakeDiscord, tmp_path: Path, options: list[str], words: str
) -> None:
    file = begin(tmp_path, discord)
    before = file.read_text()

    code, told = await invoke(file, "--yes", *options)

    assert code != 0
    assert words in told
    assert file.read_text() == before
    assert not (tmp_path / ENV_FILE).exists()
    assert not (tmp_path / "config.yaml.before-setup").exists()


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("models: [1]\n", "models (line 1)"),
        ("models: {openai: key}\n", "models.openai (line 1)"),
        ("access: 3\n", "access (line 1)"),
        ("- 1\n", "cannot be used"),
        ("models: [unclosed\n", "line 2"),
    ],
)
async def test_a_configuration_that_is_broken_is_named_with_its_line_and_stays(
    tmp_path: Path, before: str, words: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(before)

    code, told = await invoke(file, "--yes", "--provider=openai", "--model=m", "--no-check")

    assert code == 1
    assert f"{file} cannot be used:" in told
    assert words in told
    assert file.read_text() == before


async def test_without_checks_the_form_of_an_admin_is_still_checked(tmp_path: Path) -> None:
    code, told = await invoke(tmp_path / "config.yaml", "--yes", "--admin=root", "--no-check")

    assert (code, modes_in(tmp_path)) == (1, {})
    assert "'root' is no account" in told


async def test_a_closed_configuration_stays_closed_and_a_password_is_a_secret(
    tmp_path: Path,
) -> None:
    file, url = tmp_path / "config.yaml", "postgresql:///db?user=bot&password=hunter22"
    file.write_text("models: {anthropic: {api_key: sk-ant-written-into-the-file}}\n")
    file.chmod(0o600)

    code, told = await invoke(file, "--yes", f"--database={url}", "--no-check")

    assert code == 0, told
    assert modes_in(tmp_path) == dict.fromkeys(
        ("config.yaml", "config.yaml.before-setup", ENV_FILE), 0o600
    )
    assert "hunter22" not in file.read_text()
    assert read_variables(tmp_path / ENV_FILE) == {"DATABASE_URL": url}


async def test_an_admin_on_slack_gets_a_first_message(tmp_path: Path) -> None:
    async with FakeSlack.open() as slack:
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump({"slack": {"api_url": slack.api_url}}))
        user = slack.add_user("root")
        account = f"slack:{slack.team.id}:{user.id}"

        code, told = await invoke(
            file,
            "--yes",
            f"--slack-bot-token={slack.bot_token}",
            f"--slack-app-token={slack.app_token}",
            f"--admin={account}",
        )

    assert code == 0, told
    assert "has a first message" in told


async def test_without_a_terminal_it_says_how_to_answer(tmp_path: Path) -> None:
    code, told = await invoke(tmp_path / "config.yaml")

    assert code != 0
    assert "--yes" in told


@pytest.mark.processes
async def test_at_a_terminal_it_asks_again_until_an_answer_holds(
    discord: FakeDiscord, tmp_path: Path
) -> None:
    file, root = begin(tmp_path, discord), operator_of(discord)
    shown, more = bytearray(), asyncio.Event()
    master, slave = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "setup", "--config", str(file)),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "RETINUE_HOME": str(tmp_path)},
    )
    os.close(slave)

    def read() -> None:
        with suppress(OSError):
            shown.extend(os.read(master, 4096))
        more.set()

    asyncio.get_running_loop().add_reader(master, read)

    async def read_until(words: str) -> None:
        async with asyncio.timeout(40):
            while words.encode() not in shown:
                more.clear()
                await more.wait()

    # A hidden prompt ends with its space once typed characters are no longer dropped.
    for prompt, answer in (
        ("Provider", "offline"),
        ("Bot token (Enter for none): ", "wrong"),
        ("Answer again?", "y"),
        ("Bot token (Enter for none): ", discord.token),
        ("Bot token (xoxb-…) (Enter for none): ", ""),
        ("URL, empty", ""),
        ("Accounts", f"discord:{root.id}"),
    ):
        await read_until(prompt)
        shown.clear()
        os.write(master, f"{answer}\n".encode())
    await read_until("Start it:")
    asyncio.get_running_loop().remove_reader(master)
    code = await process.wait()
    os.close(master)

    assert code == 0
    assert read_variables(tmp_path / ENV_FILE) == {"DISCORD_TOKEN": discord.token}
    assert discord.messages(discord.dm(root))


def test_a_database_with_a_password_is_written_as_a_variable() -> None:
    answers = SetupAnswers(database="postgresql://bot:secret@db/bot")

    assert answers.variables == {"DATABASE_URL": "postgresql://bot:secret@db/bot"}
    assert answers.merged({}) == {"database": {"url": "${DATABASE_URL}"}}


def test_a_server_like_openai_is_written_with_its_address_and_model() -> None:
    answers = SetupAnswers(
        provider="openai", openai_url="http://127.0.0.1:11434/v1", model="qwen3", openai_key="k"
    )

    assert answers.merged({"models": {"openai": {"max_retries": 1}}}) == {
        "models": {
            "openai": {
                "max_retries": 1,
                "main_model": "qwen3",
                "subagent_model": "qwen3",
                "base_url": "http://127.0.0.1:11434/v1",
            },
            "provider": "openai",
        }
    }


def test_variables_are_read_as_systemd_and_docker_write_them(tmp_path: Path) -> None:
    file = tmp_path / ENV_FILE
    file.write_text('# mine\n A = 1 \nB="two = 2"\n\nnothing\nC=\'x\nD="\n')

    assert read_variables(file) == {"A": "1", "B": "two = 2", "C": "'x", "D": '"'}
    assert read_variables(tmp_path / "none") == {}
    with pytest.raises(ConfigError, match="cannot be read"):
        read_variables(tmp_path)
