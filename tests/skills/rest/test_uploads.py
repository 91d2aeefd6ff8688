"""Files that requests send: from the workspace of the call, and from nowhere else."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from bot.agent.permissions import Permissions, read_rules
from bot.agent.toolbox import Toolbox
from bot.errors import ToolError
from bot.rights.effective import Rights, RightsLevel
from bot.tasks import Tasks
from bot.values import Json
from skills.base import Reach, ToolContext
from skills.files.settings import WorkspaceSettings
from skills.files.workspace import OWN
from skills.files.workspaces import Workspaces
from skills.rest.uploads import UploadReader
from tests.fakes.around import caller
from tests.fakes.rest_server import FakeRest, rest_server
from tests.fakes.scripted_model import call
from tests.skills.rest.test_services import Bench

FILE = {"type": "string", "format": "binary"}
BODY: Json = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": FILE,
        "picture": FILE,
        "more": {"type": "array", "items": FILE},
        "title": {"type": "string"},
    },
}
CONTENT = {"schema": BODY, "encoding": {"picture": {"contentType": "image/*"}}}
DOCUMENT: Json = {
    "openapi": "3.0.3",
    "paths": {
        f"/{name}": {
            method: {
                "operationId": name,
                "requestBody": {"required": True, "content": {"multipart/form-data": CONTENT}},
            }
        }
        for name, method in (("upload", "post"), ("peek", "get"))
    }
    | {
        "/store": {
            "put": {
                "operationId": "store",
                "requestBody": {"content": {"application/octet-stream": {}, "image/*": {}}},
            }
        }
    },
}
PNG = b"\x89PNG\r\n\x1a\n\0"


class Place:
    """A service that takes files, and the workspaces that they come from."""

    def __init__(self, bench: Bench, fake: FakeRest, workspaces: Workspaces) -> None:
        self.bench = bench
        self.fake = fake
        self.workspaces = workspaces
        self.context = caller()

    async def put(self, path: str, content: bytes, context: ToolContext | None = None) -> None:
        """Write a file into a workspace."""
        await self.workspaces.use(context or self.context, lambda files: files.write(path, content))

    async def upload(self, **body: object) -> list[Json]:
        """Send files, and return the parts that the service received."""
        tool = self.bench.tool("upload")
        text = await tool.run(self.context, {"body": body})
        found: list[Json] = json.loads(text.partition("themselves.\n\n")[2])
        return found


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    settings = WorkspaceSettings(folder=str(tmp_path / "workspaces"), file_bytes=3_000_000)
    tasks = Tasks()
    async with rest_server() as fake, AsyncExitStack() as stack:
        fake.document = DOCUMENT
        made = Place(Bench(tasks, stack), fake, Workspaces(settings))
        made.bench.files = UploadReader(made.workspaces)
        document = f"{fake.base}/openapi.json"
        await made.bench.open(document=document, max_upload_kilobytes=4_000)
        fake.asked.clear()
        yield made
    await tasks.close()


async def test_files_of_the_workspace_are_sent_with_their_names_and_types(place: Place) -> None:
    await place.put('notes/täglich "1".md', b"# Today")
    await place.put("a.png", PNG)
    await place.put("odd", b"\xff\xfe\x00")

    parts = await place.upload(
        file='notes/täglich "1".md', picture="a.png", more=["odd", "a.png"], title="Ü"
    )

    assert [(each["name"], each["file"], each["type"].partition(";")[0]) for each in parts[:2]] == [
        ("file", "täglich %221%22.md", "text/markdown"),
        ("picture", "a.png", "image/png"),
    ]
    assert [each["name"] for each in parts[2:]] == ["more", "more", "title"]
    assert [each["file"] for each in parts[2:]] == ["odd", "a.png", None]
    assert (parts[0]["text"], parts[4]["text"]) == ("# Today", "Ü")


@pytest.mark.parametrize(
    ("path", "content", "media_type"),
    [("a.png", PNG, "image/png"), ("a.md", b"# A", "application/octet-stream")],
)
async def test_a_body_that_is_a_file_is_sent_as_it_is(
    place: Place, path: str, content: bytes, media_type: str
) -> None:
    await place.put(path, content)
    tool = place.bench.tool("store")

    text = await tool.run(place.context, {"body": path})

    seen = json.loads(text.partition("themselves.\n\n")[2])
    assert seen["headers"]["Content-Type"] == media_type
    assert seen["body"] == content.decode("utf-8", "replace")
    assert tool.reach is Reach.ACTS_BEYOND
    assert tool.files is not None
    assert tool.files({"body": f"./{path}"}) == (path,)
    with pytest.raises(ToolError, match=r"There is no b\.png"):
        await tool.run(place.context, {"body": "b.png"})


async def test_large_files_are_sent_in_full(place: Place) -> None:
    await place.put("large.bin", b"x" * 2_500_000)

    (part,) = await place.upload(file="large.bin")

    assert part["text"] == "2500000 bytes"


def add_links(folder: Path) -> None:
    (folder / "link.txt").symlink_to("/etc/passwd")
    (folder / "folder").symlink_to("/etc")


#: Paths that lead out, and what is said of each.
LEADING_OUT = {
    "../secret.txt": "without `..`",
    "notes/../../secret.txt": "without `..`",
    "/etc/passwd": "does not begin in the workspace",
    "~/.ssh/id": "does not begin in the workspace",
    "link.txt": "links are not followed",
    "folder/passwd": "links are not followed",
    "nothing.txt": "There is no nothing.txt",
    "notes": "is a folder",
    "a\r\nb": "characters in it that nobody can see",
    "": "non-empty|too short",
}


async def test_a_path_that_leads_out_sends_nothing(place: Place) -> None:
    await place.put("notes/a.md", b"a")
    add_links(place.workspaces.of(place.context).all_path / OWN)

    for path, said in LEADING_OUT.items():
        with pytest.raises(ToolError, match=said):
            await place.upload(file=path)

    assert place.fake.asked == []


async def test_a_run_with_files_of_its_own_sends_those(place: Place) -> None:
    await place.put("mine.txt", b"of the user")
    own = replace(place.context, own_workspace="run-1")
    await place.put("mine.txt", b"of the run", own)
    other = replace(place.context, user=replace(place.context.user, account="2002"))

    assert (await place.upload(file="mine.txt"))[0]["text"] == "of the user"
    place.context = own
    assert (await place.upload(file="mine.txt"))[0]["text"] == "of the run"
    place.context = other
    with pytest.raises(ToolError, match=r"There is no mine\.txt"):
        await place.upload(file="mine.txt")


async def test_files_that_are_too_large_or_of_another_kind_are_refused(place: Place) -> None:
    await place.put("a.txt", b"text")
    await place.put("b.bin", b"x" * 2_100_000)
    await place.put("c.png", b"no image")

    with pytest.raises(ToolError, match=r"more than 4\.1 MB together"):
        await place.upload(file="b.bin", more=["b.bin"])
    with pytest.raises(ToolError, match=r"`picture` takes image/\*, and a\.txt is text/plain"):
        await place.upload(file="a.txt", picture="a.txt")
    with pytest.raises(ToolError, match="at most 10 files"):
        await place.upload(file="a.txt", more=["a.txt"] * 10)

    assert place.fake.asked == []


CLOSED = read_rules({"file_read:closed/*": "deny"})
GUEST = RightsLevel(key="roles.named.guest", title="the role `guest`")


@pytest.mark.parametrize(
    ("permissions", "levels", "path", "said"),
    [
        (Permissions(CLOSED), (), "open/a.txt", "themselves."),
        (Permissions(CLOSED), (), "./closed/b.txt", "the rule `file_read:closed/*: deny` is about"),
        (Permissions().within(CLOSED), (), "closed/b.txt", "the rule `file_read:closed/*: deny`"),
        (Permissions(), (replace(GUEST, rules=CLOSED),), "open/a.txt", "themselves."),
        (Permissions(), (replace(GUEST, rules=CLOSED),), "closed/b.txt", "of the role `guest`"),
        (
            Permissions(),
            (replace(GUEST, denied={"tools": ("file_read",)}),),
            "open/a.txt",
            "the role `guest` does not include the tool `file_read`",
        ),
        (
            Permissions(read_rules({"file_read": "ask"})),
            (),
            "open/a.txt",
            "Permission required: the rule `file_read: ask` is about file_read on `open/a.txt`",
        ),
    ],
)
async def test_the_rules_about_reading_a_file_count_for_sending_it(
    place: Place, permissions: Permissions, levels: tuple[RightsLevel, ...], path: str, said: str
) -> None:
    await place.put("open/a.txt", b"a")
    await place.put("closed/b.txt", b"b")

    async def rights() -> Rights:
        return Rights(levels)

    tasks = Tasks()
    box = Toolbox(
        [replace(place.bench.tool("upload"), main_agent_only=False)],
        is_subagent=True,
        tasks=tasks,
        timeout_seconds=30,
        permissions=permissions,
    )

    result = await box.call(
        call("rest__api__upload", "id", body={"file": path}),
        replace(place.context, rights=rights),
    )

    assert said in result.text
    assert bool(place.fake.asked) is (said == "themselves.")
    await tasks.close()


async def test_without_workspaces_nothing_is_sent(place: Place) -> None:
    await place.put("open/a.txt", b"a")

    async with AsyncExitStack() as stack:
        tasks = Tasks()
        place.bench = Bench(tasks, stack)
        await place.bench.open(document=f"{place.fake.base}/openapi.json")
        with pytest.raises(ToolError, match=r"users have no files here.*`workspaces\.enabled`"):
            await place.upload(file="open/a.txt")
    await tasks.close()


async def test_sending_files_acts_beyond_and_its_subjects_are_the_paths(place: Place) -> None:
    peek, upload = place.bench.tool("peek"), place.bench.tool("upload")
    assert peek.subjects is not None

    assert (peek.reach, upload.reach) == (Reach.ACTS_BEYOND, Reach.ACTS_BEYOND)
    assert peek.subjects({"body": {"file": "./a//b", "more": ["c", 1], "title": "d"}}) == (
        *("a/b", "c"),
    )
    assert peek.subjects({"body": 1}) == ("",)
    assert upload.check is not None
    with pytest.raises(ToolError, match="'file' is a required property"):
        upload.check({"body": {}})


async def test_two_uploads_at_once_keep_their_files_apart(place: Place) -> None:
    await place.put("a.txt", b"a")
    await place.put("b.txt", b"b")

    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(place.upload(file=f"{name}.txt")) for name in "abab"]

    assert [each.result()[0]["text"] for each in calls] == ["a", "b", "a", "b"]
