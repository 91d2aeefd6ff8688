"""The command line, as a user meets it: in processes of its own, and through typer's runner."""

import errno
import itertools
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import typer
from sqlalchemy.engine import make_url
from typer.testing import CliRunner, Result

from bot.__main__ import MAX_PIPED, ConsoleCommands, build
from bot.errors import BadRequestError
from db.database import hold
from migrations.version import SCHEMA_VERSION
from tests.fakes.console import log_as_before
from tests.house_rules import HEAVY

ROOT = Path(__file__).parents[2]
COMMANDS = ("chat", "ask", "serve", "worker", "check", "migrate", "doctor")
SECRETS = {
    "ANTHROPIC_API_KEY": "the-first-key-of-mine",
    "OPENAI_API_KEY": "the-second-key-of-mine",
    "DATABASE_PASSWORD": "the/password@of:mine",
    "DISCORD_TOKEN": "the-token-of-my-bot",
}
SUBCOMMANDS = ("mcp list", "mcp approve", "mcp start", "rest list")
SLOW_MODULES = (*HEAVY, "sqlalchemy", "alembic")

Run = Callable[..., subprocess.CompletedProcess[str]]
Invoke = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs Python in an empty folder, in an environment that says nothing about the bot."""

    def start(*arguments: str, piped: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        kept = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
        kept |= {"RETINUE_HOME": str(tmp_path)}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=kept | environ,
            input=piped,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return start


@pytest.fixture
def invoke(tmp_path: Path) -> Iterator[Invoke]:
    """Runs a command in this process with the given configuration, and leaves the log as it was."""

    def start(command: str, text: str = "", *more: str, **environ: str) -> Result:
        file = tmp_path / "config.yaml"
        file.write_text(text, encoding="utf-8")
        nothing = dict.fromkeys((*SECRETS, "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"))
        return CliRunner().invoke(
            build(), [*command.split(), "--config", str(file), *more], env={**nothing, **environ}
        )

    with log_as_before():
        yield start


def test_help_names_every_command_and_what_it_is_for(run: Run) -> None:
    done = run("-m", "bot", "--help")

    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: python -m bot" in done.stdout
    for command in (*COMMANDS, "mcp"):
        assert f" {command} " in done.stdout
    assert "config-docs" not in done.stdout


@pytest.mark.parametrize("command", [*COMMANDS, *SUBCOMMANDS])
def test_every_command_has_a_help_of_its_own(invoke: Invoke, command: str) -> None:
    shown = CliRunner().invoke(build(), [*command.split(), "--help"]).output

    assert "--config" in shown
    assert "RETINUE_CONFIG" in shown.replace("\n", "")


def test_check_starts_nothing_slow(run: Run) -> None:
    code = f"""
import sys
from typer.testing import CliRunner
import bot.__main__
result = CliRunner().invoke(bot.__main__.build(), ["check"])
assert result.exit_code == 0, result.output
slow = [name for name in {SLOW_MODULES} if name in sys.modules]
assert not slow, slow
"""

    keys = {name: SECRETS[name] for name in ("ANTHROPIC_API_KEY", "DISCORD_TOKEN")}
    done = run("-c", code, **keys)

    assert (done.returncode, done.stderr) == (0, "")


def test_check_without_a_file_says_what_is_on_and_what_is_off_and_why(run: Run) -> None:
    done = run("-m", "bot", "check")

    assert (done.returncode, done.stderr) == (0, "")
    for expected in (
        "no config.yaml here",
        "no ANTHROPIC_API_KEY",
        "SQLite: data/retinue.db",
        "3 at once per user, 10 in all",
        "Discord        off: no DISCORD_TOKEN, and no `discord.token`",
        "Slack          off: no SLACK_BOT_TOKEN",
        "Shell tool     on, where its sandbox passes a self-test",
    ):
        assert expected in done.stdout


def test_check_warns_of_agents_and_skills_and_does_not_fail(run: Run, tmp_path: Path) -> None:
    for name in ("agents", "skills", "python"):
        (tmp_path / name).mkdir(mode=0o755)
    (tmp_path / "agents" / "bad.md").write_text("no front matter")
    (tmp_path / "skills" / "pdf").mkdir()
    (tmp_path / "skills" / "pdf" / "SKILL.md").write_text("no front matter")
    (tmp_path / "python" / "bad.py").write_text("raise ValueError('key the-first-key-of-mine')")
    (tmp_path / "config.yaml").write_text(
        "agents: {folders: [agents]}\n"
        "agent_skills: {folders: [skills]}\n"
        "skills: {folders: [python], entry_points: false, settings: {bad: {api_key: '${KEY}'}}}\n"
    )

    done = run("-m", "bot", "check", KEY="the-first-key-of-mine")

    assert (done.returncode, done.stderr) == (0, "")
    assert "Warnings       bad.md must begin with front matter" in done.stdout
    assert "pdf/SKILL.md must begin with front matter" in done.stdout
    assert "bad.py is left out: ValueError: key [secret] (bad.py, line 1)." in " ".join(
        done.stdout.split()
    )


def test_check_warns_of_a_database_that_is_too_old(run: Run, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    connection = sqlite3.connect(tmp_path / "data" / "retinue.db")
    connection.execute("CREATE TABLE alembic_version AS SELECT '2026112107' AS version_num")
    connection.commit()
    connection.close()

    done = run("-m", "bot", "check")

    assert done.returncode == 0
    assert "of version 2026112107, too old" in " ".join(done.stdout.split())


def test_check_warns_of_a_secret_that_stands_in_the_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "calendar: {calendars: {team: "
        "{url: 'https://host/team/', username: bot, password: sesame-open}}}\n"
    )

    done = run("-m", "bot", "check")

    assert (done.returncode, done.stderr) == (0, "")
    assert "Warnings       calendar.calendars.team.password (line 1) is a secret" in done.stdout
    assert "sesame" not in done.stdout


def test_check_fails_when_a_skill_would_keep_the_bot_from_starting(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "python").mkdir(mode=0o755)
    (tmp_path / "python" / "bad.py").write_text(
        "from skills.base import Skill, tool\n"
        "@tool(needs_confirmation=True)\n"
        "async def act(context) -> str:\n"
        "    'Act.'\n"
        "    return ''\n"
        "def build():\n"
        "    return Skill(name='bad', description='Bad.', tools=(act,))\n"
    )
    (tmp_path / "config.yaml").write_text("skills: {folders: [python]}\n")

    done = run("-m", "bot", "check")

    assert (done.returncode, done.stdout) == (1, "")
    assert "bad.py: the tool 'act' needs a confirmation" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_tells_every_mistake_and_fails(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("agent:\n  nam: Rita\n  max_steps: x\n")

    done = run("-m", "bot", "check")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "config.yaml cannot be used:",
        "  agent.nam (line 2): there is no such key; did you mean `name`?",
        "  agent.max_steps (line 3): must be a whole number; the default is 20.",
    ]


def test_another_file_can_be_named_by_option_or_variable(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("subagents: {max_concurrent_global: 77}")

    by_option = run("-m", "bot", "check", "--config", "other.yaml")
    by_variable = run("-m", "bot", "check", RETINUE_CONFIG="other.yaml")

    assert by_option.stdout == by_variable.stdout
    assert "other.yaml" in by_option.stdout
    assert "77 in all" in by_option.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_configuration_that_is_wrong_stops_every_command_with_a_sentence(
    invoke: Invoke, command: str
) -> None:
    result = invoke(command, "agent: {nam: Rita}", *(["hello"] if command == "ask" else []))

    assert result.exit_code == 1
    assert "did you mean `name`?" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", ["check", "doctor"])
@pytest.mark.parametrize(
    "more",
    ["", "agent: {max_steps: 0, timezone: '${ANTHROPIC_API_KEY}'}", "logging: {level: debug}"],
)
def test_no_secret_is_ever_shown(invoke: Invoke, command: str, more: str) -> None:
    text = f"""
models:
  anthropic: {{api_key: "${{ANTHROPIC_API_KEY}}"}}
  openai: {{api_key: "${{OPENAI_API_KEY}}", main_model: some-model}}
discord: {{api_url: "http://127.0.0.1:1/api"}}
database: {{url: "postgresql://bot:${{DATABASE_PASSWORD}}@127.0.0.1:1/retinue"}}
{more}
"""

    shown = invoke(command, text, **SECRETS).output

    assert shown
    for secret in SECRETS.values():
        assert secret not in shown


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("serve", "", "set `discord.token` (or the variable DISCORD_TOKEN) for Discord"),
        ("worker", "discord: {token: some-token}", "held by one process alone"),
    ],
)
def test_what_only_a_change_of_the_configuration_helps_is_said_with_exit_code_2(
    invoke: Invoke, tmp_path: Path, command: str, text: str, said: str
) -> None:
    kept = tmp_path / "bot.log"

    result = invoke(command, text)
    logged = invoke(command, f"{text}\nlogging: {{file: '{kept}'}}")

    assert result.exit_code == logged.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert said in logged.stderr
    assert said in kept.read_text()


UNUSABLE = {
    "corrupt": "retinue.db: file is not a database. Put a backup in its place",
    "folder": "retinue.db is a folder, not a file.",
    "name": 'database "nowhere" does not exist. Create it',
    "port": "connection refused. Check host and port in `database.url`",
}


@pytest.mark.parametrize(
    ("command", "broken"),
    [
        *itertools.product(["chat -m hello", "ask hello", "migrate", "mcp list"], UNUSABLE),
        # For the others it waits: `test_serve_process`.
        *itertools.product(["serve"], ["corrupt", "name"]),
    ],
)
def test_a_database_that_cannot_be_used_is_told_in_a_line(
    request: pytest.FixtureRequest,
    invoke: Invoke,
    tmp_path: Path,
    command: str,
    broken: str,
) -> None:
    """A corrupt file printed 209 lines."""
    said = UNUSABLE[broken]
    url = f"sqlite:///{tmp_path}/retinue.db"
    if broken == "corrupt":
        (tmp_path / "retinue.db").write_bytes(b"SQLite format 3\0" + b"no" * 4000)
    elif broken == "folder":
        (tmp_path / "retinue.db").mkdir()
    elif broken == "name":
        server = make_url(request.getfixturevalue("postgres_server"))
        url = server.set(database="nowhere").render_as_string(hide_password=False)
    else:
        url = "postgresql://bot:hunter22@127.0.0.1:1/retinue"
    text = f"""
database: {{url: '{url}'}}
discord: {{token: some-token, api_url: 'http://127.0.0.1:1/api'}}
mcp: {{servers: {{mail: {{command: [mail-server]}}}}}}
"""

    result = invoke(command, text)

    assert result.exit_code == (2 if command == "serve" else 1)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "hunter22" not in result.output


def test_a_file_that_cannot_be_used_is_told_in_a_line() -> None:
    def command() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "data/files")

    app = typer.Typer(cls=ConsoleCommands)
    app.command("one")(command)
    app.command("two")(command)

    result = CliRunner().invoke(app, ["one"])

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "data/files cannot be used: Permission denied.\n"


def test_doctor_tells_what_is_unwise_in_the_file(invoke: Invoke, tmp_path: Path) -> None:
    text = f"""
access: {{admins: [nonsense]}}
agents: {{folders: [{tmp_path}/none]}}
database: {{url: 'sqlite:///{tmp_path}/retinue.db'}}
"""

    shown = invoke("doctor", text).output

    assert "– Config     access.admins names “nonsense”, which matches nobody" in shown
    assert "– Agents     The folder" in shown


def test_migrate_makes_the_database_and_may_be_repeated(invoke: Invoke, tmp_path: Path) -> None:
    text = f"database: {{url: 'sqlite:///{tmp_path}/data/retinue.db'}}"

    first, second = invoke("migrate", text), invoke("migrate", text)

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert SCHEMA_VERSION in first.output
    assert invoke("doctor", text).exit_code == 0


@pytest.mark.parametrize(
    ("command", "more", "code", "said"),
    [
        ("mcp list", [], 0, "mail: mail-server"),
        ("mcp approve", ["mail", "--all"], 1, "No tool of the MCP server mail waits"),
        ("mcp approve", ["mail"], 1, "write --all"),
        ("mcp start", ["mail"], 1, "The MCP server mail does not wait for an approval."),
        ("mcp approve", ["mail", "send", "--as", " "], 1, "1 to 64 printable characters"),
    ],
)
def test_what_mcp_servers_offer_is_looked_at_and_approved(
    invoke: Invoke, sqlite_url: str, command: str, more: list[str], code: int, said: str
) -> None:
    text = f"""
database: {{url: '{sqlite_url}'}}
mcp: {{servers: {{mail: {{command: [mail-server]}}}}}}
"""

    result = invoke(command, text, *more)

    assert result.exit_code == code
    assert said in result.output


def test_the_operations_of_a_rest_service_are_listed(invoke: Invoke, tmp_path: Path) -> None:
    document = tmp_path / "shop.yaml"
    document.write_text("openapi: 3.1.0\npaths: {/a: {get: {operationId: ask}}}\n")
    text = f"rest: {{services: {{shop: {{document: '{document}', base: 'https://shop.example'}}}}}}"

    found, unknown = invoke("rest list", text, "shop"), invoke("rest list", text, "other")

    assert (found.exit_code, found.output) == (0, "ask (GET /a): rest__shop__ask\n")
    assert (unknown.exit_code, "There are: shop." in unknown.output) == (1, True)


def test_doctor_works_beside_a_running_bot_and_names_it(invoke: Invoke, sqlite_url: str) -> None:
    lock = hold(Path(sqlite_url.removeprefix("sqlite:///")))

    result = invoke("doctor", f"database: {{url: '{sqlite_url}'}}")
    os.close(lock)

    assert result.exit_code == 0
    assert f"process {os.getpid()} is running" in result.output


def test_doctor_fails_when_something_is_wrong(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")

    result = invoke("doctor", f"database: {{url: 'sqlite:///{tmp_path}/file/retinue.db'}}")

    assert result.exit_code == 1
    assert "✗ Database" in result.output


def test_a_log_file_that_cannot_be_written_is_told_with_its_key(
    invoke: Invoke, tmp_path: Path
) -> None:
    result = invoke("doctor", f"logging: {{file: {tmp_path}/nowhere/bot.log}}")

    assert result.exit_code == 1
    assert result.stderr.startswith("logging.file: ")


def test_the_log_is_written_in_the_form_of_the_configuration(run: Run, tmp_path: Path) -> None:
    text = "logging: {level: debug, form: json, file: bot.log}"
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")

    done = run("-m", "bot", "ask", "Hello")
    entries = [json.loads(line) for line in (tmp_path / "bot.log").read_text("utf-8").splitlines()]

    assert done.returncode == 0
    assert entries
    assert all({"event", "level", "logger", "timestamp"} <= entry.keys() for entry in entries)


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "a\nb"])
def test_a_name_that_is_none_is_refused_before_anything_starts(invoke: Invoke, name: str) -> None:
    result = invoke("chat", "", "--as", name)

    assert result.exit_code == 1
    assert "1 to 64 printable characters" in result.stderr


def test_the_example_and_the_schema_can_be_written_anew(run: Run, tmp_path: Path) -> None:
    done = run("-m", "bot", "config-docs")

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "config.example.yaml").read_text() == (
        ROOT / "config.example.yaml"
    ).read_text()


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (BadRequestError("Not with sk-ant-api03-abcdefghijkl."), 1, "Not with [secret].\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_stops_a_command_is_said_without_traceback_or_secret(
    raised: BaseException, code: int, said: str
) -> None:
    def command() -> None:
        raise raised

    app = typer.Typer(cls=ConsoleCommands)
    app.command("one")(command)
    app.command("two")(command)

    result = CliRunner().invoke(app, ["one"])

    assert (result.exit_code, result.stdout, result.stderr) == (code, "", said)


LINES = "note: the cake\nis in the oven\nand the door is shut\n"


@pytest.mark.parametrize("words", [["chat"], ["ask"]])
def test_a_pipe_is_one_message(run: Run, tmp_path: Path, words: list[str]) -> None:
    """`git diff | …` made a turn of each line."""
    done = run("-m", "bot", *words, "--as", "alice", piped=LINES)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("I made a note of it.")
    with closing(sqlite3.connect(tmp_path / "data/retinue.db")) as database:
        assert database.execute("SELECT count(*) FROM turns").fetchall() == [(1,)]
        [(note,)] = database.execute("SELECT text FROM notes").fetchall()
    assert f"note: {note}\n" == LINES


def test_a_pipe_that_is_too_long_is_refused_before_anything_starts(
    run: Run, tmp_path: Path
) -> None:
    done = run("-m", "bot", "ask", piped="x" * (MAX_PIPED + 1))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "More than 1,000,000 characters are piped in: send a part.\n"
    assert not (tmp_path / "data").exists()


def test_plain_lines_are_a_message_each(run: Run) -> None:
    done = run("-m", "bot", "chat", "--plain", piped="note: cake\nnote: tea\n")

    assert done.stdout.count("I made a note of it.") == 2


@pytest.mark.parametrize("words", [["ask", "note:", "look"], ["chat", "-m", "note: look"]])
def test_what_is_piped_in_follows_what_was_typed(
    run: Run, tmp_path: Path, words: list[str]
) -> None:
    run("-m", "bot", *words, "--as", "alice", piped="at this\n")

    with closing(sqlite3.connect(tmp_path / "data/retinue.db")) as database:
        notes = database.execute("SELECT text FROM notes").fetchall()
    assert notes == [("look\n\nat this",)]


def test_an_agent_that_is_asked_answers_with_its_result_alone(run: Run) -> None:
    pace = {"RETINUE__MODELS__OFFLINE__PACE_SECONDS": "0.01"}
    done = run("-m", "bot", "ask", "--agent", "explore", "--json", "look for tea", **pace)

    found = json.loads(done.stdout)
    assert (done.returncode, found["failed"], found["runs"][0]["status"]) == (0, False, "completed")
    assert found["answer"].startswith("## For tea")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["ask"], 2, "Say what to ask, or pipe it in"),
        (["ask", "--agent", "nobody", "hello"], 1, "There is no agent 'nobody'. There are: "),
        (["ask", "/nothing"], 1, "There is no command /nothing."),
        (["ask", "x" * 50_001], 1, "I read up to 50,000 at a time"),
    ],
)
def test_what_cannot_be_asked_ends_with_a_sentence_and_a_code(
    run: Run, words: list[str], code: int, said: str
) -> None:
    done = run("-m", "bot", *words)

    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_that_cannot_be_reached_fails_what_was_asked(run: Run) -> None:
    done = run(
        "-m",
        "bot",
        "ask",
        "hello",
        ANTHROPIC_API_KEY="some-key",
        ANTHROPIC_BASE_URL="http://127.0.0.1:1",
        RETINUE__MODELS__RETRY__TOTAL_SECONDS="1",
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert "⚠" in done.stderr
