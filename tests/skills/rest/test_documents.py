"""Large and hostile documents are read in a process of their own."""

import asyncio
import json
import time

import pytest

from bot.errors import ConfigError
from bot.values import Json
from skills.rest import documents
from skills.rest.documents import described_by, read_apart
from skills.rest.settings import RestServiceSettings
from skills.rest.trees import MOST_BYTES
from tests.skills.rest.test_openapi import PETS

PETS_SETTINGS = RestServiceSettings(document="pets.json", runs=("nothing",))


def large(size: int) -> bytes:
    """Return a document of nearly that many bytes."""
    paths: Json = {}
    one = {"get": {"operationId": "op", "description": "An operation. " * 50}}
    for number in range(size // 760):
        paths[f"/p{number}"] = {"get": one["get"] | {"operationId": f"op{number}"}}
    return json.dumps({"openapi": "3.1.0", "paths": paths}).encode()


async def test_a_document_reads_the_same_in_a_process_of_its_own() -> None:
    content = json.dumps(PETS).encode()

    apart = await read_apart("pets", PETS_SETTINGS, content)

    assert apart == described_by("pets", PETS_SETTINGS, content)
    assert apart[1].unknown == ("nothing",)
    assert {each.id for each in apart[1].operations} == {
        "getPet",
        "putPet",
        "find pets!",
        "sendForm",
    }


async def test_a_document_of_20_mb_takes_no_time_of_this_process() -> None:
    content = large(MOST_BYTES - 1_000_000)
    assert MOST_BYTES * 0.9 < len(content) <= MOST_BYTES
    settings = RestServiceSettings(
        document="x.json", base="https://shop.example", operations=("op20000", "GET /p19999")
    )
    longest, done = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal longest
        while not done.is_set():
            used = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - used)

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        reading = group.create_task(read_apart("shop", settings, content))
        await asyncio.wait([reading])
        done.set()

    _, document = reading.result()
    assert [each.id for each in document.operations] == ["op19999", "op20000"]
    # Parsing takes more than half a second; the longest step here is the start of the process.
    assert longest < 0.05


@pytest.mark.parametrize("limit", ["MEGABYTES", "CPU_SECONDS", "SECONDS"])
async def test_a_document_that_takes_too_much_is_refused(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, limit, {"MEGABYTES": 150}.get(limit, 1))
    content = b"[" + b",".join([b"[]"] * 6_000_000) + b"]"

    with pytest.raises(ConfigError, match="takes more time or memory than I may use"):
        await read_apart("shop", PETS_SETTINGS, content)


@pytest.mark.parametrize("content", [b"{ not closed", b"[]", b""])
async def test_what_is_no_document_is_explained(content: bytes) -> None:
    with pytest.raises(ConfigError, match="The document of the REST service shop is n"):
        await read_apart("shop", PETS_SETTINGS, content)
