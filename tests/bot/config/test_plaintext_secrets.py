"""What counts as a secret that stands in the file."""

import pytest

from bot.config.interpolation import Tree
from bot.config.plaintext_secrets import found, is_open
from skills.rest.settings import RestSettings

REFUSED = tuple(("rest", *place) for place in RestSettings.refused_secrets)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Authorization", "Bearer abc"),
        ("Authorization", "abc"),
        ("Proxy-Authorization", "x"),
        ("Cookie", "a=b"),
        ("X-Api-Key", "abc"),
        ("apiKey", "abc"),
        ("PRIVATE-TOKEN", "abc"),
        ("X-ApiKeyHeader", "abc"),
        ("access_token", "abc"),
        ("appid", "abc"),
        ("sig", "abc"),
        ("password", "abc"),
        ("X-Api-Key", "${KEY:-abc}"),
        ("X-Api-Key", "${ONE}${TWO:-abc}"),
        ("X-Api-Key", "$${KEY}"),
        ("X-Custom", "Bearer abc"),
        ("X-Custom", "basic YTpi"),
        ("X-Custom", "0123456789abcdef0123456789abcdef"),
        ("X-Custom", "6f1a3f0e-33a8-4a4e-9d46-5a7f6c1f0b11"),
        ("X-Custom", "${PREFIX} sk-abcdefghijklmnop"),
        ("X-Custom", "ghp_abcdefghijklmnop"),
        ("DATABASE_URL", "postgres://bot:word@host/name"),
    ],
)
def test_a_secret_is_known_by_its_name_or_by_its_looks(name: str, text: str) -> None:
    assert is_open(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Authorization", "Bearer ${TOKEN}"),
        ("Authorization", 'Token token="${TOKEN}"'),
        ("X-Api-Key", "${KEY}"),
        ("X-Api-Key", "${KEY:-}"),
        ("X-Api-Key", " "),
        ("DATABASE_URL", "postgres://bot:${WORD}@host/name"),
    ],
)
def test_what_variables_bring_in_is_no_secret_of_the_file(name: str, text: str) -> None:
    assert not is_open(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Accept", "application/vnd.github.v3+json"),
        ("Accept", "${KIND:-text/html}"),
        ("Accept-Language", "sk-SK, de;q=0.5"),
        ("X-GitHub-Api-Version", "2022-11-28"),
        ("User-Agent", "Mozilla/5.0 (compatible; Retinue; +https://host:8443/bots)"),
        ("keywords", "news"),
        ("author", "me"),
        ("units", "metric"),
        ("max_tokens", "200"),
        ("passenger", "1"),
    ],
)
def test_what_is_always_the_same_and_no_secret_may_stand_there(name: str, text: str) -> None:
    assert not is_open(name, text)


def test_only_texts_at_those_places_count_and_a_tree_of_another_shape_breaks_nothing() -> None:
    key: Tree = {"Authorization": "abc"}
    services: Tree = {"a": {"headers": key, "body": key}, "b": {"query": [key]}, "c": None, "d": 1}

    assert found({"rest": {"services": services}}, REFUSED) == [
        ("rest", "services", "a", "headers", "Authorization")
    ]
    others: list[Tree] = [{}, {"rest": "x"}, {"rest": {"services": [key]}}, {"mcp": services}]
    for other in others:
        assert found(other, REFUSED) == []
