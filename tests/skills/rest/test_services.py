"""REST services: asked where the configuration says, with its secrets, and nowhere else."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bot.errors import ToolError
from bot.net.addresses import Addresses
from bot.net.guard import NetworkOptions, open_guarded
from bot.tasks import Tasks
from bot.values import Json
from skills.base import Effects, Reach, Tool
from skills.registry import SkillRegistry
from skills.rest import skill as rest
from skills.rest.services import RestDependencies, RestServices
from skills.rest.settings import RestSettings
from skills.rest.uploads import UploadReader
from tests.fakes.around import caller
from tests.fakes.rest_server import FakeRest, rest_server
from tests.fakes.web import FakeResolver

KEY = "canary-9f8e7d6c5b4a"


def get(path: str, **more: object) -> Json:
    return {"description": "Ask.", "path": path, **more}


class Bench:
    """A service of the configuration, and how a model would use it."""

    def __init__(self, tasks: Tasks, stack: AsyncExitStack) -> None:
        self._tasks = tasks
        self._stack = stack
        self.registry = SkillRegistry([])
        self.services: RestServices
        self.open_client: Callable[[Addresses], AbstractAsyncContextManager[Any]] = open_guarded
        self.files = UploadReader(None)

    async def open(self, *, ready: bool = True, **service: object) -> None:
        settings = RestSettings.model_validate({"services": {"api": service}})
        self.services = RestServices(
            settings,
            tasks=self._tasks,
            dependencies=RestDependencies(open_client=self.open_client, files=self.files),
            first_wait=0.01,
        )
        self.registry = SkillRegistry(rest.build(self.services))
        await self._stack.enter_async_context(self.services.running())
        if ready:
            async with asyncio.timeout(10):
                await self.services.services["api"].loading_ended.wait()

    def tool(self, name: str) -> Tool:
        tools = {tool.name: tool for tool in self.registry.tools_for(is_subagent=False)}
        return tools[f"rest__api__{name}"]

    async def call(self, name: str, /, **arguments: object) -> str:
        return await self.tool(name).run(caller(), arguments)

    async def seen(self, name: str, /, **arguments: object) -> Json:
        """Call a tool and return what the service says that it was asked."""
        text = (await self.call(name, **arguments)).partition("themselves.\n\n")[2]
        found: Json = json.loads(text)
        return found


@pytest.fixture
async def fake() -> AsyncIterator[FakeRest]:
    async with rest_server() as server:
        yield server


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    tasks = Tasks()
    async with AsyncExitStack() as stack:
        yield Bench(tasks, stack)
    await tasks.close()
    assert len(tasks) == 0


async def test_a_request_by_hand_is_made_with_its_secrets(bench: Bench, fake: FakeRest) -> None:
    request = get("/of/{city}", parameters={"city": {"type": "string"}, "n": {}}, query=["n"])
    await bench.open(
        base=f"{fake.base}/api/",
        headers={"Authorization": f"Bearer {KEY}"},
        query={"key": KEY},
        requests={"ask": request},
    )

    seen = await bench.seen("ask", city="a/b c", n=[1, "x y"])

    assert fake.asked == [f"/api/of/a%2Fb%20c?n=1&n=x+y&key={KEY}"]
    assert seen["method"] == "GET"


async def test_a_lone_surrogate_is_sent_as_a_replacement(bench: Bench, fake: FakeRest) -> None:
    request = get("/of/{city}", parameters={"city": {"type": "string"}, "n": {}}, query=["n"])
    await bench.open(base=f"{fake.base}/api/", requests={"ask": request})

    await bench.call("ask", city="a\ud800", n=["\udfff", {"\ud83d\ude00": "\0"}])

    (asked,) = fake.asked
    assert asked.startswith("/api/of/a%EF%BF%BD?n=%EF%BF%BD&n=")


async def test_arguments_that_are_nested_too_deeply_are_refused(
    bench: Bench, fake: FakeRest
) -> None:
    request = get("/of", parameters={"n": {}}, query=["n"])
    await bench.open(base=f"{fake.base}/api/", requests={"ask": request})
    deep: object = "x"
    for _ in range(10_000):
        deep = [deep]

    with pytest.raises(ToolError, match="nested too deeply"):
        await bench.call("ask", n=deep)
    assert fake.asked == []


async def test_no_secret_comes_back_or_stands_in_what_a_model_reads(
    bench: Bench, fake: FakeRest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await bench.open(
        base=fake.base,
        headers={"Authorization": f"Bearer {KEY}"},
        query={"key": f"{KEY} &"},
        requests={"ask": get("/ask"), "gone": get("/missing"), "drop": get("/drop")},
    )

    said = await bench.call("ask")
    for name in ("gone", "drop"):
        with pytest.raises(ToolError) as caught:
            await bench.call(name)
        said += str(caught.value)
    tools = bench.registry.tools_for(is_subagent=False)
    said += "".join(f"{tool.description}{tool.schema}" for tool in tools)

    assert "Bearer" in said or "[secret]" in said
    assert KEY not in said
    assert KEY not in caplog.text
    assert KEY not in repr(bench.services.services["api"].settings)


async def test_a_model_cannot_put_its_own_key_in_place_of_ours(
    bench: Bench, fake: FakeRest
) -> None:
    fake.document = {
        "openapi": "3.1.0",
        "paths": {
            "/ask": {
                "get": {
                    "operationId": "ask",
                    "parameters": [
                        {"name": "x-api-key", "in": "header", "schema": {"type": "string"}},
                        {"name": "key", "in": "query", "schema": {"type": "string"}},
                    ],
                }
            }
        },
    }
    await bench.open(
        document=f"{fake.base}/openapi.json", headers={"X-API-Key": "ours"}, query={"key": "ours"}
    )

    seen = await bench.seen("ask", **{"x-api-key": "theirs", "key": "theirs"})

    assert "theirs" not in json.dumps(seen)
    assert seen["query"] == [["key", "ours"]]


async def test_a_redirect_is_not_followed(bench: Bench, fake: FakeRest) -> None:
    async with rest_server() as other:
        fake.elsewhere = f"{other.base}/trap"
        await bench.open(
            base=fake.base,
            headers={"Authorization": KEY},
            requests={"go": get("/redirect")},
        )

        with pytest.raises(ToolError, match=r"sends us elsewhere \(302\)"):
            await bench.call("go")

        assert other.asked == []


async def test_an_error_of_the_service_is_told_and_escaped(bench: Bench, fake: FakeRest) -> None:
    await bench.open(base=fake.base, requests={"gone": get("/missing")})

    with pytest.raises(ToolError, match="api answered 404") as caught:
        await bench.call("gone")

    assert "&lt;no such thing&gt;" in str(caught.value)


async def test_what_is_long_packed_or_no_text_is_bounded(bench: Bench, fake: FakeRest) -> None:
    requests = {name: get(f"/{name}") for name in ("big", "bomb", "picture")}
    await bench.open(base=fake.base, requests=requests)

    big = await bench.call("big")
    picture = await bench.call("picture")
    with pytest.raises(ToolError, match="unpacks to far more"):
        await bench.call("bomb")

    assert len(big) < 21_000
    assert big.endswith("(There is more, which was not read.)")
    assert "[image/png, 40 bytes: not shown]" in picture


async def test_a_service_that_is_slow_or_away_is_an_error_that_says_what_may_be(
    bench: Bench, fake: FakeRest
) -> None:
    requests = {"slow": get("/slow", method="POST"), "drop": get("/drop", method="DELETE")}
    await bench.open(base=fake.base, timeout_seconds=2, requests=requests)

    with pytest.raises(ToolError, match=r"within 2 seconds. It may have done"):
        await bench.call("slow")
    with pytest.raises(ToolError, match=r"cannot be reached now. It may have done"):
        await bench.call("drop")

    assert fake.asked == ["/slow", "/drop"]


async def test_a_run_gets_only_what_the_configuration_names(bench: Bench, fake: FakeRest) -> None:
    requests = {"read": get("/r"), "write": get("/w", method="POST"), "send": get("/s")}
    await bench.open(base=fake.base, requests=requests, runs=["read"], confirm=["send"])

    of_runs = bench.registry.tools_for(is_subagent=True)

    assert [tool.name for tool in of_runs] == ["rest__api__read"]
    assert bench.tool("send").needs_confirmation
    check = bench.tool("send").check
    assert check is not None
    with pytest.raises(ToolError, match="was not called"):
        check({"nothing": 1})
    assert bench.tool("read").effects is Effects.NONE
    assert bench.tool("write").effects is Effects.ONCE
    assert bench.tool("read").reach is Reach.READS_BEYOND
    assert bench.tool("write").reach is Reach.ACTS_BEYOND


async def test_a_document_is_read_once_it_is_there(bench: Bench, fake: FakeRest) -> None:
    await bench.open(ready=False, document=f"{fake.base}/openapi.json", operations=["ask", "aks"])
    assert bench.registry.tools_for(is_subagent=False) == ()

    fake.document = {
        "openapi": "3.0.0",
        "paths": {
            "/ask": {"get": {"operationId": "ask"}},
            "/other": {"get": {"operationId": "other"}},
        },
    }
    async with asyncio.timeout(10):
        await bench.services.services["api"].loading_ended.wait()

    assert [tool.name for tool in bench.registry.tools_for(is_subagent=False)] == ["rest__api__ask"]
    assert "has no aks" in bench.services.services["api"].problem
    assert (await bench.seen("ask"))["path"] == "/ask"


@pytest.mark.parametrize("base", [None, "http://shop.example:{port}"])
async def test_a_host_that_only_a_document_names_must_be_public(
    bench: Bench,
    fake: FakeRest,
    tmp_path: Path,
    base: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = fake.base.rpartition(":")[2]
    resolver = FakeResolver()
    resolver.lead("shop.example", [("127.0.0.1", int(port))])
    bench.open_client = lambda addresses: open_guarded(addresses, NetworkOptions(resolver=resolver))
    document = {
        "openapi": "3.1.0",
        "servers": [{"url": f"http://shop.example:{port}"}],
        "paths": {"/ask": {"get": {"operationId": "ask"}}},
    }
    (tmp_path / "shop.json").write_text(json.dumps(document))

    configured = base and base.format(port=port)
    await bench.open(document=str(tmp_path / "shop.json"), base=configured)

    if configured:
        assert (await bench.seen("ask"))["path"] == "/ask"
        return
    with pytest.raises(ToolError, match="cannot be reached now"):
        await bench.call("ask")
    assert fake.asked == []
    assert "only public addresses are allowed: for another, set `rest.services.api.base`" in (
        caplog.text
    )


async def test_every_operation_that_is_left_out_stands_in_the_log_once(
    bench: Bench, fake: FakeRest, caplog: pytest.LogCaptureFixture
) -> None:
    paths: Json = {f"/p{n}": {"get": {"operationId": f"op{n}"}} for n in range(200)}
    paths["/c"] = {"get": {"parameters": [{"name": "c", "in": "cookie", "required": True}]}}
    fake.document = {"openapi": "3.1.0", "paths": {"/c": paths.pop("/c"), **paths}}

    await bench.open(document=f"{fake.base}/openapi.json", runs=["op0", "GET /p1"])

    logged = caplog.text
    assert [logged.count(f"op{n} (") for n in range(200)] == [0] * 128 + [1] * 72
    assert "its parameter c cannot be sent: GET /c" in logged
    service = bench.services.services["api"]
    assert "GET /c; left out, beyond the 128" in service.problem
    names = [each.name for each in bench.registry.tools_for(is_subagent=True)]
    assert names == ["rest__api__op0", "rest__api__op1"]


async def test_a_document_of_a_file_is_read_and_a_broken_one_told(
    bench: Bench, fake: FakeRest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("openapi: 3.1.0\npaths: {/ask: {get: {operationId: ask}}}\n")
    bad.write_text("openapi: 3.1.0: no\n")

    await bench.open(document=str(good), base=fake.base)
    assert (await bench.seen("ask"))["path"] == "/ask"
    for document in (str(bad), str(tmp_path / "none.yaml")):
        await bench.open(document=document, base=fake.base)
        service = bench.services.services["api"]
        assert "neither JSON nor YAML" in service.problem or "cannot be read" in service.problem
    assert "neither JSON nor YAML" in caplog.text
