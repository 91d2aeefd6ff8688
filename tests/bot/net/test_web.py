"""The guarded web: what it reaches, what it never dials, and what it keeps."""

import asyncio
import gzip
import json
from contextlib import suppress
from pathlib import Path

import pytest

from bot.net.addresses import AnyAddress
from bot.net.base import UNREACHABLE, WebError
from bot.net.guard import NetworkOptions, OtherMachines, is_own
from bot.net.settings import FetchSettings
from bot.net.web import Site, Web
from tests.fakes.web import HERE, FakeWeb, Listener, redirect, response

#: Ways to write the address of this machine; `{port}` is where a service listens.
SPELLINGS = r"""
http://127.0.0.1:{port}/ http://127.0.0.1:{port}/../../ http://127.0.0.1.:{port}/ http://127.1:{port}/
http://127.0.1:{port}/ http://127.127.127.127:{port}/ http://127.0.0.255:{port}/ http://0:{port}/
http://0.0.0.0:{port}/ http://0.0:{port}/ http://00000000:{port}/ http://2130706433:{port}/
http://02130706433:{port}/ http://017700000001:{port}/ http://0177.0.0.1:{port}/ http://0177.1:{port}/
http://00177.00.00.01:{port}/ http://0x7f000001:{port}/ http://0X7F000001:{port}/ http://0x7f.1:{port}/
http://0x7f.0.0.1:{port}/ http://0x7f.0x0.0x0.0x1:{port}/ http://0x7f.0.0x1:{port}/ http://127.0x1:{port}/
http://0x000000007f000001:{port}/ http://127.00000001:{port}/ http://127.0.0.01:{port}/
http://127.0.0.1%2e:{port}/ http://%31%32%37.0.0.1:{port}/ http://127%2e0%2e0%2e1:{port}/
http://localhost:{port}/ http://LOCALHOST:{port}/ http://localhost.:{port}/ http://LocalHost..:{port}/
http://１２７.０.０.１:{port}/ http://127。0。0。1:{port}/ http://127．0．0．1:{port}/ http://127｡0｡0｡1:{port}/
http://①②⑦.⓪.⓪.①:{port}/ http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{port}/ http://ｌｏｃａｌｈｏｓｔ:{port}/ http://loc­alhost:{port}/
http://[::1]:{port}/ http://[0:0:0:0:0:0:0:1]:{port}/ http://[0000::0001]:{port}/ http://[::]:{port}/
http://[::0.0.0.1]:{port}/ http://[::127.0.0.1]:{port}/ http://[::7f00:1]:{port}/
http://[::ffff:127.0.0.1]:{port}/ http://[::ffff:7f00:1]:{port}/ http://[::FFFF:127.0.0.1]:{port}/
http://[0:0:0:0:0:ffff:127.0.0.1]:{port}/ http://[::ffff:0:127.0.0.1]:{port}/ http://[::ffff:0.0.0.0]:{port}/
http://[64:ff9b::127.0.0.1]:{port}/ http://[64:ff9b::7f00:1]:{port}/ http://[64:ff9b:1::7f00:1]:{port}/
http://[2002:7f00:1::]:{port}/ http://[2002:7f00:0001::1]:{port}/ http://[2001:0:7f00:1::80ff:fffe]:{port}/
http://[::1%25lo]:{port}/ http://[::1%lo]:{port}/ http://[::1%251]:{port}/ http://[fe80::1%25lo]:{port}/
http://[fe80::1]:{port}/ http://[fec0::1]:{port}/ http://[fc00::1]:{port}/ http://[ff02::1]:{port}/
http://[::1]]:{port}/ http://[[::1]]:{port}/ http://[127.0.0.1]:{port}/ http://[v1.::1]:{port}/ http://[]:{port}/
http://user@127.0.0.1:{port}/ http://user:pass@127.0.0.1:{port}/ http://@127.0.0.1:{port}/
http://public.example@127.0.0.1:{port}/ http://public.example%40127.0.0.1:{port}/
http://public.example:80@127.0.0.1:{port}/ http://127.0.0.1:{port}@public.example:{port}/
http://127.0.0.1:{port}\@public.example/ http://127.0.0.1:{port}\.public.example/
http://public.example\@127.0.0.1:{port}/ http:\\127.0.0.1:{port}\ http:/\127.0.0.1:{port}/
http:127.0.0.1:{port}/ http:/127.0.0.1:{port}/ http:///127.0.0.1:{port}/ //127.0.0.1:{port}/
127.0.0.1:{port} http://127.0.0.1:{port}#@public.example/ http://127.0.0.1:{port}?@public.example/ http://127.0.0.1:+{port}/
http://inside.example:{port}/ http://INSIDE.example.:{port}/ http://in-side.example:{port}/
ftp://127.0.0.1:{port}/ gopher://127.0.0.1:{port}/_ dict://127.0.0.1:{port}/ ldap://127.0.0.1:{port}/
ws://127.0.0.1:{port}/ jar:http://127.0.0.1:{port}!/ url:http://127.0.0.1:{port}/ netdoc://127.0.0.1:{port}/
"""
BROKEN = (
    "http://127.0.0.1\0.public.example:{port}/",
    "http://127.0.0.1\t:{port}/",
    "http://127.0.0.1\r\n:{port}/",
    "http://127.0.0.1 :{port}/",
    "http://127.0.0.1:{port} .public.example/",
    "http://\u200b127.0.0.1:{port}/",
    "http://127.0.0.1\ufeff:{port}/",
    "http://\u202e127.0.0.1:{port}/",
    "http://\ud800127.0.0.1:{port}/",
    "\x01http://127.0.0.1:{port}/",
    "ht\ntp://127.0.0.1:{port}/",
)
ALL_SPELLINGS = [*SPELLINGS.split(), *BROKEN]


async def refused(web: Web, address: str) -> str:
    async with asyncio.timeout(10):
        with pytest.raises(WebError) as caught:
            await web.fetch(address)
    return str(caught.value)


def lead_inside(there: FakeWeb, inside: Listener) -> None:
    for name in ("inside.example", "INSIDE.example.", "inside.example.", "in-side.example"):
        there.resolver.lead(name, [(HERE, inside.port)])


def test_the_table_of_spellings_is_long_enough() -> None:
    assert len(ALL_SPELLINGS) == len(set(ALL_SPELLINGS)) >= 100


@pytest.mark.parametrize("spelling", ALL_SPELLINGS)
async def test_no_spelling_of_an_inner_address_is_dialled(
    there: FakeWeb, inside: Listener, spelling: str
) -> None:
    lead_inside(there, inside)
    web = there.web(also=frozenset({inside.port}))

    said = await refused(web, spelling.format(port=inside.port))

    assert inside.connections == 0
    assert str(inside.port) not in said


async def test_without_the_guard_many_of_these_spellings_would_arrive(
    there: FakeWeb, inside: Listener
) -> None:
    lead_inside(there, inside)
    ports = frozenset({inside.port})
    web = Web(
        FetchSettings(seconds=10),
        addresses=AnyAddress(),
        ports=ports,
        network=NetworkOptions(resolver=there.resolver),
    )

    for spelling in (
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://0.0.0.0:{port}/",
    ):
        await refused(web, spelling.format(port=inside.port))
    await refused(web, f"http://inside.example:{inside.port}/")

    # An answer that does not come is asked for once more.
    assert inside.connections >= 4


@pytest.mark.parametrize(
    "location",
    [
        "http://inside.example/",
        "//inside.example/",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://127.1/",
        "http://localhost/",
        "http://me:secret@inside.example/",
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:{port}/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/_x",
        "\\\\inside.example\\x",
    ],
)
async def test_a_chain_of_redirects_never_arrives_inside(
    there: FakeWeb, inside: Listener, location: str
) -> None:
    lead_inside(there, inside)
    there.pages["public.example/"] = redirect("http://other.example/x")
    there.pages["other.example/x"] = redirect(location.format(port=inside.port), status=307)

    said = await refused(there.web(also=frozenset({inside.port})), "http://public.example/")

    assert inside.connections == 0
    assert [asked.host for asked in there.asked] == ["public.example", "other.example"]
    assert "inside" not in said
    assert "127" not in said


async def test_a_name_that_leads_elsewhere_the_second_time_is_not_followed_inside(
    there: FakeWeb, inside: Listener
) -> None:
    there.pages["rebinds.example/"] = redirect("http://rebinds.example/again")
    there.resolver.lead("rebinds.example", [(HERE, there.port)], [(HERE, inside.port)])

    said = await refused(there.web(), "http://rebinds.example/")

    assert said == UNREACHABLE
    assert len(there.asked) == 1
    assert inside.connections == 0
    assert there.resolver.asked == ["rebinds.example"] * 2


async def test_of_several_addresses_only_what_may_be_dialled_is_tried(
    there: FakeWeb, inside: Listener
) -> None:
    there.pages["mixed.example/"] = response(b"public")
    there.resolver.lead(
        "mixed.example",
        [("::1", inside.port), (HERE, inside.port), ("10.0.0.1", 80), (HERE, there.port)],
    )

    answer = await there.web().fetch("http://mixed.example/")

    assert answer.content == b"public"
    assert inside.connections == 0


async def test_nobody_can_tell_what_is_refused_from_what_is_not_there(
    there: FakeWeb, inside: Listener
) -> None:
    async with Listener().open() as closed:
        pass
    strict = there.web(also=frozenset({inside.port, closed.port}))

    said = {
        await refused(strict, f"http://127.0.0.1:{inside.port}/"),
        await refused(strict, f"http://127.0.0.1:{closed.port}/"),
        await refused(strict, "http://no-such-name.invalid/"),
        await refused(strict, "http://127.1/"),
    }

    assert said == {UNREACHABLE}


def test_the_addresses_of_this_machine_are_known() -> None:
    assert is_own("127.0.0.1")
    assert not is_own("192.0.2.77")
    assert not is_own("8.8.8.8")


def test_what_this_machine_has_is_not_dialled_even_where_all_else_is() -> None:
    policy = OtherMachines(AnyAddress())

    assert not policy.may_dial("127.0.0.1", 443)
    assert policy.may_dial("192.0.2.77", 443)
    assert isinstance(Web(FetchSettings()).addresses, OtherMachines)


async def test_the_usual_web_dials_nothing_of_this_machine(inside: Listener) -> None:
    ports = frozenset({inside.port})

    await refused(Web(FetchSettings(), ports=ports), f"http://127.0.0.1:{inside.port}/")

    assert inside.connections == 0


async def test_other_ports_are_not_asked(there: FakeWeb) -> None:
    assert "leave the port out" in await refused(there.web(), "http://public.example:8080/")
    there.pages["public.example/"] = redirect("http://public.example:22/")
    assert "leave the port out" in await refused(there.web(), "http://public.example/")


async def test_a_page_is_what_was_sent_and_what_redirected_to_it_is_known(there: FakeWeb) -> None:
    there.pages["a.example/"] = redirect("/b?c=d", status=301)
    there.pages["a.example/b"] = redirect("//other.example/e#f", status=303)
    there.pages["other.example/e"] = response("ü".encode(), kind='Text/HTML; Charset="UTF-8"; x=y')

    answer = await there.web().fetch("http://a.example/#top")

    assert answer.url == "http://other.example/e"
    assert answer.hops == ("http://a.example/", "http://a.example/b?c=d")
    assert (answer.content, answer.media_type, answer.charset) == (
        "ü".encode(),
        "text/html",
        "utf-8",
    )
    assert [asked.target for asked in there.asked] == ["/", "/b?c=d", "/e"]


async def test_redirects_are_followed_a_few_times_only(there: FakeWeb) -> None:
    there.pages["round.example/"] = redirect("/")

    said = await refused(there.web(FetchSettings(redirects=3)), "http://round.example/")

    assert "more than 3 times" in said
    assert len(there.asked) == 4


async def test_what_goes_from_https_to_http_is_not_followed(tmp_path: Path) -> None:
    async with FakeWeb().open(tmp_path) as there:
        there.pages["safe.example/"] = redirect("http://plain.example/")
        there.pages["plain.example/"] = redirect("https://safe.example/page")
        there.pages["safe.example/page"] = response(b"safe")

        assert "from https to http" in await refused(there.web(), "https://safe.example/")
        assert (await there.web().fetch("http://plain.example/")).content == b"safe"


async def test_who_does_not_prove_who_he_is_is_not_read(tmp_path: Path) -> None:
    async with FakeWeb().open(tmp_path) as there:
        there.pages["safe.example/"] = response(b"safe")
        there.tls = None

        assert "certificate is not valid" in await refused(there.web(), "https://safe.example/")
        assert there.asked == []


async def test_nothing_is_kept_from_one_request_to_the_next(there: FakeWeb) -> None:
    there.pages["a.example/"] = redirect("/b", set_cookie="id=1; Path=/; Domain=a.example")
    there.pages["a.example/b"] = response(b"x", set_cookie="id=2; Path=/")
    web = there.web()

    await web.fetch("http://a.example/")
    await web.fetch("http://a.example/b")

    sent = [asked.headers for asked in there.asked]
    assert len(sent) == 3
    assert not any({"cookie", "referer", "authorization"} & set(headers) for headers in sent)


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
async def test_a_proxy_of_the_environment_is_not_used(
    there: FakeWeb, inside: Listener, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, f"http://127.0.0.1:{inside.port}")
    there.pages["a.example/"] = response(b"direct")

    assert (await there.web().fetch("http://a.example/")).content == b"direct"
    assert inside.connections == 0


async def test_passwords_of_the_environment_are_not_sent(
    there: FakeWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login me password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    there.pages["a.example/"] = response(b"x")

    await there.web().fetch("http://a.example/")

    assert "authorization" not in there.asked[0].headers


@pytest.mark.parametrize(
    "status", [201, 204, 302, 304, 400, 401, 403, 404, 410, 429, 500, 503, 599]
)
async def test_what_is_no_page_is_told_with_its_status(there: FakeWeb, status: int) -> None:
    body = b"" if status in {204, 304} else b"<h1>secret words</h1>"
    there.pages["a.example/"] = response(body, status=status)

    said = await refused(there.web(), "http://a.example/")

    assert f"status {status}" in said
    assert "secret" not in said


async def test_what_is_no_text_is_not_read(there: FakeWeb) -> None:
    there.pages["a.example/"] = response(b"%PDF", kind="application/pdf")

    assert "no text" in await refused(there.web(), "http://a.example/")


async def test_a_packed_page_is_unpacked_and_a_bomb_is_not(there: FakeWeb) -> None:
    there.pages["a.example/"] = response(gzip.compress(b"page"), content_encoding="gzip")
    there.pages["a.example/b"] = response(gzip.compress(bytes(50_000_000)), content_encoding="gzip")

    assert (await there.web().fetch("http://a.example/")).content == b"page"
    assert "far more than it says" in await refused(there.web(), "http://a.example/b")
    assert there.asked[0].headers["accept-encoding"] == "gzip, deflate"


async def test_a_page_without_end_is_cut(there: FakeWeb) -> None:
    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"a" * 65_536)
            await writer.drain()

    there.pages["a.example/"] = endless

    answer = await there.web(FetchSettings(megabytes=0.5)).fetch("http://a.example/")

    assert (len(answer.content), answer.cut) == (524_288, True)
    async with asyncio.timeout(10):
        await there.gone["a.example/"].wait()


@pytest.mark.parametrize("length", ["10", "99999999999", "-1", "abc", "4, 4"])
async def test_a_page_that_is_shorter_than_it_says_is_not_taken_for_whole(
    there: FakeWeb, length: str
) -> None:
    there.pages["a.example/"] = response(b"page", content_length=length)

    assert "broke off" in await refused(there.web(), "http://a.example/")


async def test_what_follows_a_page_is_not_taken_for_a_part_of_it(there: FakeWeb) -> None:
    there.pages["a.example/"] = response(b"page and more", content_length="4")

    with suppress(WebError):
        assert (await there.web().fetch("http://a.example/")).content == b"page"


@pytest.mark.parametrize(
    "nonsense",
    [
        b"",
        b"no http at all\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_told_as_a_break(there: FakeWeb, nonsense: bytes) -> None:
    there.pages["a.example/"] = lambda _, writer: _write(writer, nonsense)

    assert "broke off" in await refused(there.web(), "http://a.example/")


async def test_a_page_that_drips_ends_when_its_time_is_up(there: FakeWeb) -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.05)

    there.pages["a.example/"] = drip

    said = await refused(there.web(FetchSettings(seconds=1)), "http://a.example/")

    assert "did not come within 1 seconds" in said


async def test_redirects_share_one_time(there: FakeWeb) -> None:
    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.4)
        writer.write(redirect("/"))
        await writer.drain()

    there.pages["a.example/"] = slow

    said = await refused(there.web(FetchSettings(seconds=1, redirects=10)), "http://a.example/")

    assert "did not come within 1 seconds" in said


async def test_who_stops_waiting_hangs_up(there: FakeWeb) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nbegun")
        await writer.drain()
        await reader.read()

    there.pages["a.example/"] = silent
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        fetching = tasks.create_task(there.web().fetch("http://a.example/"))
        await there.begun["a.example/"].wait()

        fetching.cancel()

        await there.gone["a.example/"].wait()


def site(there: FakeWeb, path: str = "") -> Site:
    return Site("The shop", there.url + path, FetchSettings(seconds=10, megabytes=0.1))


async def test_a_service_that_the_configuration_names_may_be_anywhere(there: FakeWeb) -> None:
    there.pages[f"{HERE}/api/v1/things"] = response(b'{"a": 1}', kind="application/json")

    answer = await site(there, "/api/v1").ask(
        "things", method="POST", params={"q": "a&b c"}, headers={"X-Key": "k"}, json={"b": 2}
    )

    (asked,) = there.asked
    assert (answer.status, json.loads(answer.content)) == (200, {"a": 1})
    assert (asked.method, asked.target) == ("POST", "/api/v1/things?q=a%26b+c")
    assert asked.headers["x-key"] == "k"
    assert json.loads(asked.body) == {"b": 2}


@pytest.mark.parametrize(
    "path",
    [
        *("../secret", "../../secret", "a/../../secret", "%2e%2e/%2e%2e/secret", "\\..\\secret"),
        *("a b", "a\r\nHost: x", "../v10/secret", ".."),
    ],
)
async def test_nothing_that_is_not_below_a_service_is_asked_for(there: FakeWeb, path: str) -> None:
    with pytest.raises(WebError):
        await site(there, "/api/v1").ask(path)

    assert there.asked == []


@pytest.mark.parametrize("path", ["@evil.example/", "//evil.example/", "http://evil.example/"])
async def test_no_path_leads_from_a_service_to_another(there: FakeWeb, path: str) -> None:
    assert (await site(there).ask(path)).status == 404

    assert there.asked[0].host == HERE


async def test_a_service_cannot_send_us_elsewhere(there: FakeWeb, inside: Listener) -> None:
    there.pages[f"{HERE}/a"] = redirect(f"http://127.0.0.1:{inside.port}/")

    assert (await site(there).ask("a")).status == 302
    assert inside.connections == 0


async def test_a_service_tells_what_it_refuses(there: FakeWeb) -> None:
    there.pages[f"{HERE}/a"] = response(b'{"error": "no"}', status=422, kind="application/json")

    answer = await site(there).ask("a")

    assert (answer.status, answer.content) == (422, b'{"error": "no"}')


async def test_a_service_that_does_not_answer_is_named(there: FakeWeb, inside: Listener) -> None:
    gone = Site("The shop", f"http://127.0.0.1:{inside.port}", FetchSettings())

    with pytest.raises(WebError, match="The shop gives no usable answer now") as caught:
        await gone.ask("a")

    assert "127" not in str(caught.value)


async def test_a_service_that_says_too_much_is_cut_short(there: FakeWeb) -> None:
    there.pages[f"{HERE}/a"] = response(b"a" * 200_000)

    with pytest.raises(WebError, match="more than is read"):
        await site(there).ask("a")


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
