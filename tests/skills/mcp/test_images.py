"""Images of MCP servers are shown to the model and saved, whatever form they come in."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace

import pytest

from bot.agent.messages import Media
from bot.values import Json
from skills.base import ToolContext, ToolError
from skills.mcp.images import MOST_IMAGES, MOST_LINKED, ImageTaker
from skills.mcp.tools import result_text
from tests.fakes.around import caller
from tests.fakes.pictures import GIF, JPEG, PICTURES, PNG, WEBP
from tests.skills.mcp.things import BEFORE, Bench, sdk_server


def item(data: bytes) -> Json:
    return {"type": "image", "mimeType": "image/png", "data": b64encode(data).decode()}


class Call:
    """A call whose images are shown and saved."""

    def __init__(self, *, full: bool = False, texts: Mapping[str, str] | None = None) -> None:
        self.shown: list[Media] = []
        self.saved: dict[str, bytes] = {}
        self.full = full
        self.texts = texts or {}
        self.context: ToolContext = replace(caller(), show=self.shown.append)

    async def save(self, _: ToolContext, path: str, content: bytes) -> None:
        if self.full:
            raise ToolError("There is no room.")
        self.saved[path] = content

    async def read(self, uri: str) -> list[Json]:
        if uri in self.texts:
            return [{"uri": uri, "text": self.texts[uri]}]
        raise ToolError(f"There is no {uri}.")

    async def take(self, *content: object) -> str:
        """Take the images out of a result, and return it as a model reads it."""
        taker = ImageTaker("art", self.save)
        result = await taker.take({"content": list(content)}, self.context, self.read)
        return result_text("art", result).partition(BEFORE)[2]


@pytest.mark.parametrize("data", PICTURES.values(), ids=PICTURES)
async def test_an_image_is_shown_and_saved_under_its_name(data: bytes) -> None:
    call = Call()

    text = await call.take({"type": "text", "text": "Here:"}, item(data))

    ((path, saved),) = call.saved.items()
    (media,) = call.shown
    assert (media.data, media.name, saved) == (data, path, data)
    assert path.startswith("images/art-")
    assert text.startswith(f"Here:\n[image {path}, ")
    assert text.endswith("shown with this result, and saved in the workspace]")


async def test_where_it_cannot_be_saved_it_is_shown_all_the_same() -> None:
    call = Call(full=True)

    assert "but not saved: There is no room." in await call.take(item(PNG))
    assert [media.data for media in call.shown] == [PNG]
    nowhere = ImageTaker("art", None)
    result = await nowhere.take({"content": [item(GIF)]}, call.context, call.read)
    assert str(result["content"][0]["text"]).endswith("shown with this result]")


@pytest.mark.parametrize(
    "odd",
    [
        item(b"no image at all"),
        {"type": "image", "data": "%%%"},
        {"type": "resource", "resource": {"uri": "a://b", "text": "words"}},
        {"type": "resource_link", "uri": "a://b", "name": "b", "mimeType": "image/png"},
        {"type": "resource_link", "uri": "a://b", "name": "b", "mimeType": "text/html"},
        {"type": "audio", "data": b64encode(PNG).decode()},
    ],
)
async def test_what_is_no_image_is_described_as_before(odd: Json) -> None:
    call = Call()

    assert await call.take(odd) == result_text("art", {"content": [odd]}).partition(BEFORE)[2]
    assert (call.shown, call.saved) == ([], {})


@pytest.mark.parametrize("kind", ["text/markdown; charset=utf-8", "application/json"])
async def test_linked_texts_are_read_up_to_a_number_and_stay_untrusted(kind: str) -> None:
    call = Call(texts={f"a://{n}": f"<text {n}>" for n in range(MOST_LINKED + 1)})
    links = [
        {"type": "resource_link", "uri": uri, "name": "b", "mimeType": kind} for uri in call.texts
    ]

    text = await call.take(*links)

    assert text.startswith("[link to a resource b: a://0]\n&lt;text 0&gt;\n")
    assert f"text {MOST_LINKED - 1}" in text
    assert text.endswith(f"[link to a resource b: a://{MOST_LINKED}]")


async def test_of_many_images_the_first_are_taken() -> None:
    call = Call()

    text = await call.take(*[item(WEBP)] * (MOST_IMAGES + 1))

    assert len(call.shown) == MOST_IMAGES
    assert text.endswith("bytes: not shown]")


async def test_a_server_sends_images_resources_and_links_to_them(bench: Bench) -> None:
    await bench.open(fake=sdk_server())
    call = Call()
    context = call.context

    await bench.tool("mcp__fake__drawing").run(context, {})
    text = await bench.tool("mcp__fake__gallery").run(context, {})

    assert [media.data for media in call.shown] == [PNG, JPEG, GIF]
    assert text.endswith("[link to a resource gone: dot://gone]")
