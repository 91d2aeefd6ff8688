"""No setting is read at the start and kept, except those that are declared to need a restart."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_stack
from typing import Any

import pytest

from bot import app, assembly
from bot.app import open_bot
from bot.config.differences import restart_keys
from bot.config.model import Config
from bot.config.problems import all_keys, section
from bot.values import Settings
from migrations.run import open_database
from skills import discovery

#: Keys that are read at the start and still count at once, with the reason.
READ_AGAIN = {
    ("models",): "`Models` opens its providers anew when the section has changed",
    ("agents", "folders"): "the catalog of agents looks at the folders again",
    ("subagents", "max_concurrent_global"): "the engine holds 1,000 more than it says",
}
#: Modules whose skills are opened anew when a section that they have read has changed.
REOPENED = "skills/opening.py"


def keys_of_classes() -> dict[tuple[type[Settings], str], tuple[str, ...]]:
    """Return each key by the class of its section and its name there."""
    kinds: dict[tuple[str, ...], type[Settings]] = {(): Config}
    found = {}
    for key, field in all_keys(Config):
        path = tuple(map(str, key))
        if below := section(field):
            kinds[path] = below
        found[kinds[path[:-1]], path[-1]] = path
    return found


@contextmanager
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[type[Settings], str]]]:
    """Record every setting that is read outside of the opening of a skill."""
    read: set[tuple[type[Settings], str]] = set()

    def get(self: Settings, name: str) -> Any:
        if not name.startswith("_") and name in type(self).model_fields:
            files = [frame.filename for frame in extract_stack()[:-1]]
            # The fingerprint covers all keys, and is made anew at each change.
            aside = (REOPENED, "config/differences.py")
            if not any(file.endswith(each) for file in files for each in aside):
                read.add((type(self), name))
        return object.__getattribute__(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(Settings, "__getattribute__", get, raising=False)
        yield read


async def test_only_declared_settings_are_kept_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"database": {"url": f"sqlite:///{tmp_path}/retinue.db"}, "shell": {"enabled": False}}
    config = Config.model_validate(given)
    async with open_database(config.database) as database:
        with recording(monkeypatch) as read:
            async with open_bot(config, {}, database=database):
                at_start = set(read)
    paths = keys_of_classes()

    allowed = {*(tuple(map(str, key)) for key in restart_keys()), *READ_AGAIN}
    kept = {paths[each] for each in at_start if each in paths and not section_of(paths[each])}
    assert sorted(key for key in kept if not any(key[: len(top)] == top for top in allowed)) == []
    assert [key for key in READ_AGAIN if not any(each[: len(key)] == key for each in kept)] == []


def section_of(path: tuple[str, ...]) -> bool:
    """Return True if a key denotes a section."""
    return any(tuple(map(str, key)) == path and section(field) for key, field in all_keys(Config))


def test_every_section_of_a_skill_is_one_that_a_skill_reads_when_it_is_opened() -> None:
    read = {kind for module in discovery.modules() for kind in discovery.settings_of(module)}

    assert set(discovery.sections()) == read


def test_parts_are_built_with_live_settings_and_not_with_those_of_the_start() -> None:
    # A group of settings is accepted in place of a live one, so that types do not find this.
    sources = [Path(module.__file__ or "").read_text("utf-8") for module in (app, assembly)]
    read = {name for text in sources for name in re.findall(r"(?:start|\(\))\.([a-z_]+)", text)}
    sections = {name for name in Config.model_fields if name in read}

    # The last one in a function that is called at each use.
    assert sections == {"database", "skills", "permissions"}
