"""Searches: each provider against a server that speaks as it does."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from pydantic import SecretStr, ValidationError

from bot.errors import ToolError
from bot.models.anthropic import AnthropicSettings, Claude
from bot.models.prices import Prices
from bot.models.retrying import Patience, RetrySettings
from bot.net.settings import FetchSettings
from bot.net.web import Site
from skills.web.search.base import Hit, SearchError, SearchProvider
from skills.web.search.catalog import open_provider
from skills.web.search.ddgs import DdgsSearch
from skills.web.search.services import SERVICES, ServiceSearch
from skills.web.settings import SearchSettings
from tests.fakes.web import HERE, FakeWeb, response

FOUND = [
    Hit("Whales", "https://a.example/", "About whales & more"),
    Hit("https://b.example/", "https://b.example/", ""),
]


@dataclass(frozen=True)
class Case:
    """A provider, and how its server speaks."""

    name: str
    path: str
    text_key: str

    def provider(self, there: FakeWeb, path: str = "") -> SearchProvider:
        site = Site(self.name, there.url + path, FetchSettings(seconds=10))
        (service,) = (each for each in SERVICES.values() if each.name == self.name)
        return ServiceSearch(service, site, SecretStr("the-key"))

    def answer(self, results: object) -> bytes:
        found: object = {"results": results}
        found = {"web": found} if self.name == "Brave Search" else found
        return response(json.dumps(found).encode(), kind="application/json")


CASES = (
    Case("SearXNG", "/search", "content"),
    Case("Brave Search", "/res/v1/web/search", "description"),
    Case("Tavily", "/search", "content"),
)


@pytest.fixture
async def there() -> AsyncIterator[FakeWeb]:
    async with FakeWeb().open() as web:
        yield web


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


async def test_what_was_found_is_given_and_what_is_malformed_left_out(
    there: FakeWeb, case: Case
) -> None:
    key = case.text_key
    there.pages[HERE + case.path] = case.answer(
        [
            {"title": "<b>Whales</b>", "url": "https://a.example/", key: "About whales &amp; more"},
            {"title": "No address"},
            {"title": "A trap", "url": "javascript:alert(1)", key: "x"},
            {"title": "A file", "url": "file:///etc/passwd", key: "x"},
            "nonsense",
            {"title": None, "url": "https://b.example/", key: 7},
            {"title": "Third", "url": "https://c.example/", key: "x"},
        ]
    )

    assert list(await case.provider(there).search("big whales", most=2)) == FOUND


async def test_it_is_asked_as_its_service_wants_it(there: FakeWeb, case: Case) -> None:
    there.pages[HERE + case.path] = case.answer([])

    assert await case.provider(there).search("a&b ü", most=3) == ()

    (asked,) = there.asked
    match case.name:
        case "SearXNG":
            assert asked.target == "/search?q=a%26b+%C3%BC&format=json"
        case "Brave Search":
            assert "q=a%26b+%C3%BC&count=3" in asked.target
            assert asked.headers["x-subscription-token"] == "the-key"
        case "Tavily":
            assert json.loads(asked.body) == {"query": "a&b ü", "max_results": 3}
            assert asked.headers["authorization"] == "Bearer the-key"


async def test_a_service_may_stand_below_a_path(there: FakeWeb, case: Case) -> None:
    there.pages[f"{HERE}/inner{case.path}"] = case.answer([])

    assert await case.provider(there, "/inner/").search("x", most=1) == ()


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "does not let me"), (403, "does not let me"), (429, "no more searches"), (500, "later")],
)
async def test_a_refusal_is_told_with_what_to_do_and_without_the_key(
    there: FakeWeb, case: Case, status: int, said: str
) -> None:
    there.pages[HERE + case.path] = response(b"the-key is wrong", status=status)

    with pytest.raises(SearchError, match=said) as caught:
        await case.provider(there).search("x", most=1)

    assert case.name in str(caught.value)
    assert "the-key" not in str(caught.value)


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"results": 7, "web": 7}']
)
async def test_an_answer_that_makes_no_sense_breaks_nothing(
    there: FakeWeb, case: Case, body: bytes
) -> None:
    there.pages[HERE + case.path] = response(body, kind="application/json")

    try:
        assert await case.provider(there).search("x", most=1) == ()
    except SearchError as error:
        assert "no usable answer" in str(error)  # noqa: PT017 - either is right


async def test_a_service_that_is_not_there_is_told(there: FakeWeb, case: Case) -> None:
    provider = case.provider(there)
    there.pages[HERE + case.path] = b""

    with pytest.raises(ToolError, match=f"{case.name} gives no usable answer now"):
        await provider.search("x", most=1)


async def test_ddgs_gives_what_its_library_finds() -> None:
    def engine(query: str, most: int) -> Sequence[Mapping[str, object]]:
        assert (query, most) == ("whales", 2)
        return [
            {"title": "Whales", "href": "https://a.example/", "body": "About whales &amp; more"}
        ]

    assert list(await DdgsSearch(engine).search("whales", most=2)) == FOUND[:1]


async def test_ddgs_that_fails_is_told_as_a_search_that_found_nothing() -> None:
    def engine(query: str, most: int) -> Sequence[Mapping[str, object]]:
        raise RuntimeError(f"no results for {query} of {most} at 10.0.0.1")

    with pytest.raises(SearchError, match="Try other words") as caught:
        await DdgsSearch(engine).search("whales", most=2)

    assert "10.0.0.1" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"provider": "searxng", "base_url": "http://10.0.0.5:8080/searx"}, "SearXNG"),
        ({"provider": "brave", "api_key": "k"}, "Brave Search"),
        ({"provider": "tavily", "api_key": "k"}, "Tavily"),
    ],
)
def test_the_settings_choose_the_service(settings: dict[str, str], name: str) -> None:
    claude = Claude(
        settings=AnthropicSettings(),
        patience=Patience(RetrySettings(), "Anthropic"),
        answers=True,
        prices=Prices({}, {}),
    )

    found = open_provider(
        AsyncExitStack(), SearchSettings.model_validate(settings), FetchSettings(), claude
    )

    assert isinstance(found, ServiceSearch)
    assert found.service.name == found.site.name == name
    assert found.api_key.get_secret_value() == settings.get("api_key", "")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"provider": "searxng"}, "needs `search.base_url`"),
        ({"provider": "brave"}, "needs `search.api_key`"),
        ({"provider": "tavily", "api_key": " "}, "needs `search.api_key`"),
        ({"provider": "google"}, "provider"),
        ({"provider": "searxng", "base_url": "http://me:secret@a.example"}, "base_url"),
        ({"provider": "searxng", "base_url": "file:///etc"}, "base_url"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SearchSettings.model_validate(settings)
