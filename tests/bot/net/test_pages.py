"""HTML as Markdown: what a page says, whatever it is made of."""

import asyncio
import os
from pathlib import Path

import pytest

from bot.net import pages
from bot.net.base import WebError
from bot.net.reading import MOST_CHARACTERS, MOST_ELEMENTS, to_markdown

URL = "https://news.example/today/page"

PAGE = """<!doctype html><html><head><title>The  news |
 today</title><meta charset="utf-8"><style>p { color: red }</style></head><body>
<nav><a href="/">Home</a><a href="/about">About</a></nav>
<main><article><h1>A whale came by</h1>
<p>On Saturday a whale came by, and many people <b>stood</b> and looked at it for a long while.</p>
<p>It left in the evening; more is in <a href="../whales">our report</a> about whales at sea.</p>
<ul><li>It was grey, and large for its age.</li><li>It sang a song that nobody knew.</li></ul>
<table><tr><th>Day</th><th>Whales</th></tr><tr><td>Saturday</td><td>1</td></tr></table>
<pre><code>whales = 1</code></pre></article></main>
<script>alert("a script speaks")</script><footer>All rights reserved by the whale</footer>
</body></html>"""

#: To parse this takes minutes.
SLOW = "<p " + " ".join(f"a{n}=1" for n in range(200_000)) + ">"


def read(page: str) -> str:
    return to_markdown(page, URL)


def test_an_article_is_given_as_markdown() -> None:
    text = read(PAGE)

    assert "# A whale came by" in text
    assert "**stood**" in text
    assert "[our report](https://news.example/whales)" in text
    assert "- It was grey" in text
    assert "| Saturday | 1 |" in text
    assert "whales = 1" in text


def test_what_nobody_sees_is_left_out() -> None:
    text = read(PAGE)

    assert "script speaks" not in text
    assert "color: red" not in text


def test_a_page_without_a_heading_begins_with_its_title() -> None:
    text = read("<title> My\n page</title><p>Only these few words are here, and no heading.</p>")

    assert text.startswith("# My page\n\n")
    assert "few words" in text


@pytest.mark.parametrize(
    "page",
    [
        "<p>hello there",
        "hello there",
        "<div>hello<span> there</span></div>",
        "<a href=x>hello there</a>",
        "<form><label>hello there</label></form>",
        "<?xml version='1.0' encoding='utf-8'?><html><body>hello there</body></html>",
        "<html><frameset><noframes>hello there</noframes></frameset></html>",
    ],
)
def test_of_what_is_hardly_a_page_the_bare_text_is_given(page: str) -> None:
    assert "hello there" in read(page)


def test_bare_text_has_a_line_for_each_block() -> None:
    page = "<div>one</div><div>two <i>words</i>, three</div><script>no</script><ul><li>four<li>five"

    assert read(page + "<i></i>" * MOST_ELEMENTS).splitlines() == [
        *("one", "", "two words, three", "", "four", "", "five")
    ]


@pytest.mark.parametrize("page", ["", " ", "<html></html>", "<script>x</script>", "<!-- x -->"])
def test_an_empty_page_is_empty(page: str) -> None:
    assert read(page).strip() == ""


@pytest.mark.parametrize(
    "page",
    [
        "<p>a" * 100_000,
        "<b><i><p>" * 100_000,
        "<div>" * 200_000 + "deep",
        "<ul><li>a" * 100_000,
        "<a href=x>y</a>" * 100_000,
        "<!--" * 200_000,
        "<" * 500_000,
        "&amp;" * 200_000,
        "<title>" * 100_000,
        '<script type="application/ld+json">' + "[" * 500_000,
    ],
    ids=lambda page: page[:12],
)
def test_of_a_page_with_far_too_much_in_it_the_bare_text_is_given(page: str) -> None:
    assert len(read(page)) <= len(page)


def test_links_do_not_make_a_page_grow_without_end() -> None:
    page = "<p>words</p>" + "<p><a href=x>some words</a></p>" * 5000

    assert len(to_markdown(page, f"https://a.example/{'b' * 3900}/")) <= MOST_CHARACTERS


async def test_a_page_is_read_in_a_process_of_its_own() -> None:
    assert "# A whale came by" in await pages.to_markdown(PAGE, URL)
    assert await pages.to_markdown("", URL) == ""
    assert "žluť" in await pages.to_markdown("<p>žluť \ud800</p>", URL)


async def test_a_page_that_takes_too_long_is_given_up_and_its_process_ends() -> None:
    before = children()

    async with asyncio.timeout(8):
        with pytest.raises(WebError, match="cannot be read"):
            await pages.to_markdown(SLOW, URL, seconds=2)

    assert children() <= before


async def test_who_stops_waiting_for_a_page_ends_its_process() -> None:
    before = children()
    async with asyncio.timeout(8), asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(pages.to_markdown(SLOW, URL))
        while children() <= before:  # noqa: ASYNC110 - a process gives no event when it begins
            await asyncio.sleep(0)
        (child,) = children() - before
        assert environment(child) == b""

        reading.cancel()

    assert children() <= before


async def test_the_process_knows_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "trafilatura.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert "# A whale came by" in await pages.to_markdown(PAGE, URL)


def environment(process: str) -> bytes:
    return Path(f"/proc/{process}/environ").read_bytes()


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_nothing_that_a_page_names_is_fetched() -> None:
    page = """<!DOCTYPE html SYSTEM "http://127.0.0.1:1/x.dtd" [<!ENTITY x SYSTEM "file:///etc/passwd">]>
    <html xmlns:xi="http://www.w3.org/2001/XInclude"><head><base href="file:///etc/">
    <meta http-equiv="refresh" content="0; url=http://127.0.0.1:1/"></head>
    <body><xi:include href="file:///etc/passwd" parse="text"/><p>words &x; and more words here</p>
    <iframe src="file:///etc/passwd"></iframe></body></html>"""

    assert "root:" not in read(page)


def test_an_entity_does_not_grow() -> None:
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
    page = f'<!DOCTYPE html [<!ENTITY e0 "ha">{entities}]><html><body>so &e9; it is</body></html>'

    assert len(read(page)) < 10_000
