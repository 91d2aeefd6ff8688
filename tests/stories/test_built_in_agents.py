"""Each agent that comes with the bot does its job on real files; its model goes by what it reads.

The scripted models here decide from what the tools returned: a tool that returns something else
leads them to another report.
"""

import re
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import select

from bot.net.settings import FetchSettings
from bot.net.web import Site
from bot.values import RunStatus
from db import tables
from skills.web import skill as web
from skills.web.search.services import SERVICES, ServiceSearch
from skills.web.settings import SearchSettings
from tests.fakes.anthropic_server import Reply
from tests.fakes.web import FakeWeb, response
from tests.skills.web.test_skill import AllowingPolicy
from tests.stories.farm import FILES, Cast, Farm, Work, farm, line_of
from tests.stories.stage import call, calls

# -- code-search -----------------------------------------------------------------------------------


def searches(work: Work) -> Reply:
    """Look which files there are, search them, read where it was found, and report that."""
    scope = work.given("scope")
    match work.results:
        case ():
            return call("glob", pattern="**/*.py", path=scope)
        case (paths,):
            assert len(paths.split("\n")) > 1
            return call("grep", pattern=rf"def {work.given('query')}\b", path=scope, files="*.py")
        case (_, hit):
            path, line, _ = hit.split(":", 2)
            return call("file_read", path=path, offset=int(line), limit=3, line_numbers=True)
        case (_, hits, text):
            where = ":".join(hits.split("\n")[0].split(":")[:2])
            return Reply(text=f"{where}\n{text.partition(chr(10) * 2)[2]}")
    raise AssertionError(work.results)


async def test_code_search_finds_the_place_and_shows_its_lines_in_the_same_turn(
    database_url: str, tmp_path: Path
) -> None:
    cast = Cast(
        searches,
        main=[
            call("code_search", query="count_barns", scope="farm"),
            lambda work: Reply(text=f"It says:\n{work.results[-1]}"),
        ],
    )
    async with farm(database_url, tmp_path, cast) as it:
        before = it.fingerprint()
        reply = await it.ask("Where are barns counted?")
        run = await it.stage.run_of("count_barns")

        line = line_of("farm/barn.py", "def count_barns")
        assert (run.agent, run.mode, run.status) == ("code-search", "sync", RunStatus.COMPLETED)
        assert (
            f"farm/barn.py:{line}\n{line}\tdef count_barns(farm):\n"
            f'{line + 1}\t    """Return how many barns a farm has."""\n'
            f'{line + 2}\t    return len(farm["barns"])\n' in reply
        )
        assert "attic" not in reply
        assert it.stage.outlet.announcements == []
        assert it.fingerprint() == before


# -- code-review -----------------------------------------------------------------------------------

FLAWS = {
    "a bare except hides every error": ("critical", re.compile(r"except:")),
    "a list as default is shared by all calls": ("major", re.compile(r"def .*=\[\]")),
    "the file is never closed": ("minor", re.compile(r"json\.load\(open\(")),
}


def reviews(work: Work) -> Reply:
    """Read the target with its line numbers, and report the flaws that stand there."""
    target = work.given("target")
    if not work.results:
        assert work.given("focus") == "bugs"
        return call("file_read", path=target, line_numbers=True)
    rows = [row.partition("\t") for row in work.results[0].split("\n")[2:]]
    return Reply(
        text="\n".join(
            f"{severity}: {target}:{number} {what}"
            for what, (severity, pattern) in FLAWS.items()
            for number, _, text in rows
            if pattern.search(text)
        )
    )


async def test_code_review_reports_each_flaw_with_its_line(sqlite_url: str, tmp_path: Path) -> None:
    cast = Cast(
        reviews,
        main=[
            call("code_review", target="farm/barn.py", focus="bugs"),
            lambda work: Reply(text=work.results[-1]),
        ],
    )
    async with farm(sqlite_url, tmp_path, cast) as it:
        before = it.fingerprint()
        reply = await it.ask("Review farm/barn.py for bugs.")

        lines = {text: line_of("farm/barn.py", text) for text in ("except:", "=[]", "open(")}
        findings = [line for line in reply.split("\n") if "farm/barn.py:" in line]
        assert [finding.split(" ")[:2] for finding in findings] == [
            ["critical:", f"farm/barn.py:{lines['except:']}"],
            ["major:", f"farm/barn.py:{lines['=[]']}"],
            ["minor:", f"farm/barn.py:{lines['open(']}"],
        ]
        assert it.fingerprint() == before


# -- planner ---------------------------------------------------------------------------------------


def plans(work: Work) -> Reply:
    """List the files, find those that the task touches, write them down, and report the plan."""
    name = work.given("task").split(" ")[1]
    match work.results:
        case ():
            return call("file_list", path="")
        case (tree,):
            assert "farm/" in tree
            return call("grep", pattern=rf"\b{name}\b", files="*.py", names_only=True)
        case (_, paths):
            kept = work.given("constraints").split(" ")[1]
            steps = [path for path in sorted(paths.split("\n")) if not path.startswith(kept)]
            return call("todo_write", items=[{"text": f"Change {path}"} for path in steps])
        case (_, _, _):
            return call("todo_read")
        case (*_, todo):
            steps = [line.removeprefix("[ ] ") for line in todo.split("\n") if "[ ]" in line]
            numbered = (f"{number}. {step}" for number, step in enumerate(steps, 1))
            return Reply(text="\n".join(numbered))
    raise AssertionError(work.results)


async def test_plan_makes_a_numbered_plan_of_the_files_it_found_and_implements_nothing(
    sqlite_url: str, tmp_path: Path
) -> None:
    cast = Cast(
        plans,
        main=[
            call("plan", task="Rename count_barns to barns_in", constraints="Leave attic/ alone"),
            lambda work: Reply(text=work.results[-1]),
        ],
    )
    async with farm(sqlite_url, tmp_path, cast) as it:
        before = it.fingerprint()
        reply = await it.ask("How would we rename count_barns?")
        run = await it.stage.run_of("Rename")

        assert "\n1. Change farm/api.py\n2. Change farm/barn.py\n" in reply
        assert "attic" not in reply
        assert await todos_of(it, run.id) == ["Change farm/api.py", "Change farm/barn.py"]
        assert it.fingerprint() == before


async def todos_of(it: Farm, run_id: str) -> list[str]:
    async with it.stage.bot.database.snapshot() as tx:
        row = (await tx.execute(select(tables.todos).where(tables.todos.c.id == run_id))).one()
    return [item["text"] for item in row.items]


# -- explore ---------------------------------------------------------------------------------------


def explores(work: Work) -> Reply:
    """Look at the whole, read what it says of itself, and follow its imports."""
    match work.results:
        case ():
            return calls(("file_list", {"depth": 2}), ("glob", {"pattern": "**/*.py"}))
        case (tree, _):
            about = next(row.split(" ")[0] for row in tree.split("\n") if row.startswith("README"))
            return call("file_read", path=about)
        case (_, _, about):
            entry = re.search(r"Begin with (\S+):", about)
            assert entry
            return calls(
                ("grep", {"pattern": "^from farm", "path": entry[1]}),
                ("grep", {"pattern": "^(from|import) ", "files": "*.py"}),
            )
        case (_, paths, _, first, imports):
            users = [row for row in imports.split("\n") if "farm.barn" in row]
            return Reply(
                text=f"It begins with {first}\n{len(users)} of {len(paths.split(chr(10)))} "
                f"modules import farm.barn:\n" + "\n".join(sorted(users))
            )
    raise AssertionError(work.results)


async def test_explore_tells_how_a_folder_hangs_together_as_a_run_in_the_background(
    database_url: str, tmp_path: Path
) -> None:
    async with farm(database_url, tmp_path, Cast(explores)) as it:
        before = it.fingerprint()
        run, told = await it.spawn("explore", "How does the farm hang together?")

        modules = sum(path.endswith(".py") for path in FILES)
        assert (run.agent, run.mode, run.status) == ("explore", "async", RunStatus.COMPLETED)
        assert told == (
            "It begins with farm/api.py:1: from farm.barn import count_barns\n"
            f"2 of {modules} modules import farm.barn:\n"
            "farm/api.py:1: from farm.barn import count_barns\n"
            "farm/tests/test_barn.py:1: from farm.barn import load_farm"
        )
        assert it.fingerprint() == before


# -- researcher ------------------------------------------------------------------------------------

COUNT = re.compile(r"([\d,]+) barns")


def researches(work: Work) -> Reply:
    """Search, read each page that was found and one's own notes, and compare, with sources."""
    if not work.results:
        return call("web_search", query="how many barns are there")
    urls = re.findall(r"^ +(http\S+)$", work.results[0], re.MULTILINE)
    if len(work.results) == 1:
        own = ("file_read", {"path": "docs/barns.md"})
        return calls(*(("web_fetch", {"url": url}) for url in urls), own)
    said: list[str] = []
    for source, text in zip([*urls, "docs/barns.md"], work.results[1:], strict=True):
        count = COUNT.search(text)
        said.append(f"{count[1]} barns ({source})" if count else f"{source} could not be read")
    return Reply(text="\n".join(said))


def page_about(count: str) -> bytes:
    text = f"There are {count} barns in this country, as the census of barns has found out. "
    body = f"<html><head><title>Barns</title></head><body><article><h1>Barns</h1><p>{text * 3}"
    return response(f"{body}</p></article></body></html>".encode())


async def test_researcher_searches_reads_and_reports_each_statement_with_its_source(
    sqlite_url: str, tmp_path: Path
) -> None:
    urls = [f"http://{name}.example/barns" for name in ("census", "blog", "gone")]
    hits = ", ".join(f'{{"title": "Barns", "url": "{url}", "content": "Barns."}}' for url in urls)
    off = {"fetch": FetchSettings(enabled=False), "search": SearchSettings(provider=None)}
    async with FakeWeb().open() as there:
        there.pages["census.example/barns"] = page_about("40,512")
        there.pages["blog.example/barns"] = page_about("12")
        there.pages["127.0.0.1/search"] = response(
            f'{{"results": [{hits}]}}'.encode(), kind="application/json"
        )
        search = ServiceSearch(
            SERVICES["searxng"], Site("SearXNG", there.url, FetchSettings()), SecretStr("")
        )
        own = web.build(there.web(), search, policy=AllowingPolicy())
        async with farm(sqlite_url, tmp_path, Cast(researches), (own,), **off) as it:
            before = it.fingerprint()
            run, told = await it.spawn("researcher", "How many barns are there?")

            assert (run.agent, run.status) == ("researcher", RunStatus.COMPLETED)
            assert told == (
                f"40,512 barns ({urls[0]})\n12 barns ({urls[1]})\n{urls[2]} could not be read\n"
                "41,000 barns (docs/barns.md)"
            )
            assert it.fingerprint() == before
