"""Two processes follow one `config.yaml`, whichever way it is replaced, and report once."""

import json
from contextlib import AsyncExitStack
from pathlib import Path

from sqlalchemy import select

from bot.values import Json
from db import tables
from db.database import Database
from db.settings import DatabaseSettings
from tests.fakes.discord.server import FakeDiscord
from tests.fakes.patience import eventually
from tests.fakes.serving import serving

CAP = "subagents.max_concurrent_per_user"


def replaced(folder: Path, text: str) -> None:
    """Replace the file as editors and Ansible do."""
    other = folder / "config.yaml.new"
    other.write_text(text)
    other.rename(folder / "config.yaml")


def mounted(folder: Path, text: str) -> None:
    """Replace the file as Kubernetes does: a link to a folder is replaced, through which it is."""
    count = len(list(folder.glob("..2026*")))
    data = folder / f"..2026_{count}"
    data.mkdir()
    (data / "config.yaml").write_text(text)
    link = folder / "..data_tmp"
    link.symlink_to(data.name)
    link.rename(folder / "..data")
    file = folder / "config.yaml"
    if not file.is_symlink():
        other = folder / "config.yaml.new"
        other.symlink_to("..data/config.yaml")
        other.rename(file)


async def notices(url: str) -> list[str]:
    """Return what the admins were notified of, in order."""
    async with Database.open(DatabaseSettings(url=url)) as database, database.snapshot() as tx:
        table = tables.admin_notices
        return list(await tx.scalars(select(table.c.text).order_by(table.c.created_at)))


async def test_two_processes_follow_a_file_refuse_a_broken_one_and_report_once(
    postgres_url: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(FakeDiscord.open())
        guild, root = fake.add_guild("Farm"), fake.add_user("root")
        fake.join(guild, root)
        access = {"access": {"admins": [f"discord:{root.id}"]}}
        given: Json = {"database_url": postgres_url, "sections": access}
        first = await stack.enter_async_context(serving(fake, tmp_path, **given))
        await first.wrote("Connected to Discord as")
        other = await stack.enter_async_context(serving(fake, tmp_path, command="worker", **given))
        await other.wrote("Ready")
        base = json.loads((tmp_path / "config.yaml").read_text())

        def with_cap(cap: Json | int | str) -> str:
            runs = base["subagents"] | {"max_concurrent_per_user": cap}
            return json.dumps(base | {"subagents": runs})

        for replace, text, words in (
            (replaced, with_cap(7), "3 → 7"),
            (mounted, with_cap("many"), "The configuration from before stays in force"),
            (mounted, with_cap(9), "7 → 9"),
        ):
            replace(tmp_path, text)
            for process in (first, other):
                await process.wrote(words)

        async def reported() -> bool:
            return len(await notices(postgres_url)) == 3

        await eventually(reported, "a notice for each change")
        shown = [each.text() for each in fake.messages(fake.dm(root))]
        told = await notices(postgres_url)

    assert [CAP in each for each in told] == [True, True, True]
    assert "stays in force" in told[1]
    assert len([each for each in shown if "For admins" in each]) <= 3
