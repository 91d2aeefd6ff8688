"""Sets a bot up: checks the answers of an admin against the services, and writes them down."""

import asyncio
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from bot.accounts import account_of
from bot.checks import Check, about, fails, works
from bot.config.document import read
from bot.config.loading import load
from bot.config.model import Config
from bot.console import ENV_FILE, read_variables
from bot.doctor import database_checks
from bot.errors import BadRequestError, BotError, ConfigError
from bot.logs import quiet
from bot.models import checkup as models
from bot.platforms.catalog import PLATFORMS, module_of
from bot.values import Identity, Json

HEAD = (
    "# Written by `retinue setup`, which may be run again. Secrets are in {env}.\n"
    "# config.example.yaml has every key with its default.\n"
)
#: Seconds for the first message to an admin.
GREET_SECONDS = 15.0
GREETING = (
    "Hello! I am set up, and you are one of my operators. Write to me here, or mention me in a "
    "channel. `!retinue help` lists the commands, `!retinue health` shows how I am."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupAnswers:
    """The answers of an admin; an empty one leaves a part off, or as it is.

    Attributes:
        provider: `anthropic`, `openai` (or a server like it), or `offline` for the demo.
        admins: Accounts in the form of `access.admins`.
    """

    provider: str = ""
    anthropic_key: str = ""
    openai_key: str = ""
    openai_url: str = ""
    model: str = ""
    discord_token: str = ""
    slack_bot_token: str = ""
    slack_app_token: str = ""
    database: str = ""
    admins: tuple[str, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the environment that hold the secrets."""
        found = {
            "ANTHROPIC_API_KEY": self.anthropic_key,
            "OPENAI_API_KEY": self.openai_key,
            "DISCORD_TOKEN": self.discord_token,
            "SLACK_BOT_TOKEN": self.slack_bot_token,
            "SLACK_APP_TOKEN": self.slack_app_token,
            "DATABASE_URL": self.database if self._has_password else "",
        }
        return {name: value.strip() for name, value in found.items() if value.strip()}

    @property
    def _has_password(self) -> bool:
        return "@" in self.database or "password" in self.database.lower()

    def merged(self, before: Json) -> Json:
        """Return the configuration with these answers; what they leave out stays."""
        after = dict(before)

        def put(section: str, **values: Any) -> None:
            given = {key: value for key, value in values.items() if value}
            if given:
                after[section] = {**(after.get(section) or {}), **given}

        own: Json = {}
        if self.provider in {"anthropic", "openai"}:
            known = (after.get("models") or {}).get(self.provider) or {}
            given = {"main_model": self.model, "subagent_model": self.model}
            given |= {"base_url": self.openai_url} if self.provider == "openai" else {}
            own = {self.provider: {**known, **{k: v for k, v in given.items() if v}}}
        put("models", provider=self.provider, **{k: v for k, v in own.items() if v})
        put("database", url="${DATABASE_URL}" if self._has_password else self.database)
        put("access", admins=list(self.admins))
        return after


@dataclass(frozen=True, slots=True)
class Setup:
    """The set-up in a folder.

    Attributes:
        file: The configuration, which need not exist.
        environ: The environment.
    """

    file: Path
    environ: Mapping[str, str]

    @property
    def env_file(self) -> Path:
        """The file of the variables."""
        return self.file.with_name(ENV_FILE)

    def known(self) -> dict[str, str]:
        """Return the variables that are set already."""
        return {**read_variables(self.env_file), **self.environ}

    def config(self, answers: SetupAnswers) -> Config:
        """Return the configuration that these answers make.

        Raises:
            BadRequestError: An admin is no account.
            ConfigError: An answer, or the file that is there, is invalid; the text names the key
                and the valid form.
        """
        for each in answers.admins:
            account_of(each)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / self.file.name
            file.write_text(self._text(answers), encoding="utf-8")
            try:
                return load(file, {**self.known(), **answers.variables})
            except ConfigError as error:
                raise ConfigError(str(error).replace(str(file), str(self.file))) from None

    def _before(self) -> Json:
        """Return the configuration that is there; empty for none.

        Raises:
            ConfigError: It is not usable; the text names the line.
        """
        if not self.file.exists():
            return {}
        document = read(self.file.read_bytes())
        models = document.tree.get("models") or {}
        sections = [models, *(document.tree.get(name) or {} for name in ("database", "access"))]
        if isinstance(models, dict):
            sections += [models.get(name) or {} for name in ("anthropic", "openai")]
        if document.problems or not all(isinstance(each, dict) for each in sections):
            load(self.file, self.known())
        return dict(yaml.safe_load(self.file.read_text("utf-8")) or {})

    def _text(self, answers: SetupAnswers) -> str:
        after = answers.merged(self._before())
        shown = yaml.safe_dump(after, allow_unicode=True, sort_keys=False) if after else ""
        return HEAD.format(env=ENV_FILE) + shown

    async def checks(self, answers: SetupAnswers) -> list[Check]:
        """Return the findings on these answers, from the services themselves."""
        try:
            config = self.config(answers)
        except BotError as error:
            return [fails(str(error), "Config")]
        with quiet("bot", "db", "skills"):
            found = await database_checks(config.database) if answers.database else []
            if answers.provider:
                found += about("Model", await models.look(config.models))
            for kind in PLATFORMS:
                section = config.section(kind)
                names = [each.name for each in fields(answers)]
                answered = any(getattr(answers, n) for n in names if n.startswith(kind.section))
                if section.configured and answered:
                    found += about(kind.title, await module_of(kind, "checkup").look(section))
        return found

    def write(self, answers: SetupAnswers) -> list[Path]:
        """Write the configuration and the variables, and return the written files.

        A former configuration is kept beside the new one. Both are replaced as a whole.
        """
        written = [self.file]
        text = self._text(answers)
        if self.file.exists() and self.file.read_text("utf-8") != text:
            former = self.file.with_name(f"{self.file.name}.before-setup")
            _replace(former, self.file.read_text("utf-8"), mode=0o600)
            written.append(former)
        _replace(self.file, text, mode=0o644)
        if answers.variables:
            variables = {**read_variables(self.env_file), **answers.variables}
            lines = "".join(f"{name}={value}\n" for name, value in variables.items())
            _replace(self.env_file, lines, mode=0o600)
            written.append(self.env_file)
        return written

    async def greet(self, answers: SetupAnswers) -> list[Check]:
        """Send a first message to each admin on Discord and Slack."""
        config, found, users = self.config(answers), list[Check](), list[Identity]()
        for each in config.access.admins:
            try:
                users.append(account_of(each))
            except BadRequestError as error:
                found.append(fails(str(error), "Admins"))
        for kind in PLATFORMS:
            section = config.section(kind)
            for user in users if section.configured else ():
                if user.platform != kind.section:
                    continue
                name = f"{kind.section}:{user.account}"
                try:
                    async with asyncio.timeout(GREET_SECONDS):
                        await module_of(kind, "checkup").greet(section, user, GREETING)
                    found.append(works(f"{name} has a first message.", kind.title))
                except (BotError, OSError, TimeoutError) as error:
                    reason = str(error) or "no answer"
                    found.append(fails(f"{name} could not be written to: {reason}", kind.title))
        return found


def _replace(file: Path, text: str, *, mode: int) -> None:
    """Write a file as a whole.

    Args:
        file: The file. One that is there keeps its owner, and gets no wider mode than it has.
        text: The text.
        mode: The mode.
    """
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
        if file.exists():
            former = file.stat()
            mode = stat.S_IMODE(former.st_mode) & (mode | stat.S_IRGRP)
            with suppress(PermissionError):
                os.fchown(target.fileno(), former.st_uid, former.st_gid)
        os.fchmod(target.fileno(), mode)
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
    new.rename(file)
