"""What a URL may look like, and where a redirect may lead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from bot.net.base import UNREACHABLE, WebError
from bot.net.urls import check_port, checked, next_hop


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("https://example.com", "https://example.com"),
        ("  https://example.com/a?b=c#d \n", "https://example.com/a?b=c"),
        ("HTTPS://EXAMPLE.com/A", "https://example.com/A"),
        ("http://bücher.example/straße", "http://xn--bcher-kva.example/stra%C3%9Fe"),
        ("https://example.com:443/", "https://example.com/"),
        ("https://example.com/a%20b", "https://example.com/a%20b"),
        ("https://example.com/@someone", "https://example.com/@someone"),
        ("https://a_b.example.com./", "https://a_b.example.com./"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/"),
    ],
)
def test_addresses_as_people_write_them_are_taken(address: str, asked: str) -> None:
    assert str(checked(address)) == asked


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "https:// at its beginning"),
        ("example.com/a", "https:// at its beginning"),
        ("example.com:443/a", "https:// at its beginning"),
        ("//example.com/", "https:// at its beginning"),
        ("/etc/passwd", "https:// at its beginning"),
        ("file:///etc/passwd", "begin with http"),
        ("ftp://example.com/", "begin with http"),
        ("gopher://example.com/", "begin with http"),
        ("data:text/html,x", "begin with http"),
        ("javascript:alert(1)", "begin with http"),
        ("view-source:https://example.com/", "begin with http"),
        ("unix:/run/docker.sock", "begin with http"),
        ("http:example.com", "no host"),
        ("http:/example.com", "no host"),
        ("http:///example.com", "no host"),
        ("http://?x", "no host"),
        ("http://#x", "no host"),
        ("http://me@example.com/", "before an @"),
        ("http://me:secret@example.com/", "before an @"),
        ("http://@example.com/", "before an @"),
        ("http://:@example.com/", "before an @"),
        ("http://example.com@127.0.0.1/", "before an @"),
        ("http://example.com;@127.0.0.1/", "before an @"),
        ("http://example.com%2f@127.0.0.1/", "before an @"),
        ("http://example.com\\@127.0.0.1/", "backslash"),
        ("http:\\\\example.com\\", "backslash"),
        ("http://example.com/a\\b", "backslash"),
        ("http://exa mple.com/", "blank"),
        ("http://example.com/a b", "blank"),
        ("http://example.com/\u00a0", "blank"),
        ("http://example.com/\u2028", "blank"),
        ("http://example.com\0.evil.example/", "control"),
        ("http://exam\tple.com/", "control"),
        ("http://example.com/\r\nHost: x", "control"),
        ("http://example.com/\x7f", "control"),
        ("http://example.com/\x85", "control"),
        ("http://example.com/\ud800", "control"),
        ("http://[::1", "no address of a web page"),
        ("http://[127.0.0.1]/", "no address of a web page"),
        ("http://example.com:99999/", "no address of a web page"),
        ("http://example.com:80:80/", "no address of a web page"),
        ("http://example.com:x/", "no address of a web page"),
        ("http://a..b/", "no host that could exist"),
        ("http://.../", "no host that could exist"),
        ("http://%31%32%37.0.0.1/", "no host that could exist"),
        ("http://a%00.example/", "no host that could exist"),
        ("http://[fe80::1%25eth0]/", "no host that could exist"),
        ("http://[fe80::1%eth0]/", "no host that could exist"),
        ("http://[v1.fe80::]/", "no host that could exist"),
        (f"http://{'a' * 64}.example/", "no host that could exist"),
        (f"http://{'a.' * 130}example/", "no host that could exist"),
        (f"https://example.com/{'a' * 4000}", "4,000 characters"),
    ],
)
def test_what_no_address_of_a_page_looks_like_is_refused_with_advice(
    address: str, said: str
) -> None:
    with pytest.raises(WebError, match=said):
        checked(address)


@pytest.mark.parametrize(
    "host",
    ["127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0", "1.2.3.4.5"],
)
def test_numbers_that_some_take_for_an_address_are_not_even_looked_up(host: str) -> None:
    with pytest.raises(WebError) as caught:
        checked(f"http://{host}/")

    assert str(caught.value) == UNREACHABLE


@pytest.mark.parametrize("port", [21, 22, 25, 3306, 6379, 8080, 0])
def test_other_ports_are_not_asked(port: int) -> None:
    with pytest.raises(WebError, match="leave the port out"):
        check_port(checked(f"http://example.com:{port}/"), frozenset({80, 443}))


@pytest.mark.parametrize(
    ("current", "location", "leads"),
    [
        ("https://a.example/x/y", "z", "https://a.example/x/z"),
        ("https://a.example/x", "/z?q", "https://a.example/z?q"),
        ("https://a.example/x", "//b.example/", "https://b.example/"),
        ("http://a.example/x", "https://b.example/", "https://b.example/"),
        ("http://a.example/x", "http://b.example/#f", "http://b.example/"),
    ],
)
def test_a_redirect_leads_where_it_says(current: str, location: str, leads: str) -> None:
    assert str(next_hop(URL(current), location)) == leads


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://a.example/", "from https to http"),
        ("file:///etc/passwd", "not read"),
        ("ftp://a.example/", "not read"),
        ("javascript:alert(1)", "not read"),
        ("//me@a.example/", "not read"),
        ("//127.1/", "not read"),
        ("//[::1/", "not read"),
        ("", "makes no sense"),
        ("/a b", "makes no sense"),
        ("/a\\b", "makes no sense"),
        ("\\\\a.example\\", "makes no sense"),
        ("/\udc80", "makes no sense"),
        ("/" + "a" * 4001, "makes no sense"),
    ],
)
def test_a_redirect_must_not_lead_just_anywhere(location: str, said: str) -> None:
    with pytest.raises(WebError, match=said):
        next_hop(URL("https://a.example/x"), location)


@given(st.one_of(st.text(max_size=80), st.text(max_size=60).map(lambda rest: "https://" + rest)))
def test_any_text_is_an_address_of_the_web_or_refused(text: str) -> None:
    try:
        url = checked(text)
    except WebError:
        return
    assert url.scheme in {"http", "https"}
    assert url.raw_host
    assert url.user is url.password is None
    assert url.raw_fragment == ""


@given(st.text(max_size=80))
def test_any_location_leads_to_the_web_or_nowhere(location: str) -> None:
    try:
        url = next_hop(URL("https://a.example/x"), location)
    except WebError:
        return
    assert url.scheme == "https"
