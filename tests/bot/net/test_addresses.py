"""Which addresses may be dialled: a table, and what holds for all."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.net.addresses import AnyAddress, PublicAddresses, is_public

NOT_PUBLIC = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1
127.1.2.3 127.255.255.255 168.63.129.16 169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255
192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255
198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::7f00:1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:a9fe:a9fe ::ffff:0:127.0.0.1
::ffff:10.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::7f00:1
64:ff9b:1::808:808 100::1 2001::1 2001:0:7f00:1::1 2001:10::1 2001:20::1 2001:db8::1 2001:1ff::1
2002:7f00:1:: 2002:a9fe:a9fe::1 2002:808:808::1 3fff::1 3fff:fff::1 4000::1 5f00::1 fc00::1
fd00:ec2::254 fd12:3456:789a::1 fe80::1 fe80::1%eth0 fe80::1%1 fec0::1 feff::1 ff02::1 ff0e::1
2606:4700::1111%eth0 ::ffff:8.8.8.8%1 64:ff9b::808:808%1
"""

PUBLIC = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1
168.63.129.15 169.253.255.255 172.15.255.255 172.32.0.1 192.0.1.1 192.167.255.255 198.17.255.255
198.20.0.1 223.255.255.255 ::ffff:8.8.8.8 ::ffff:808:808 64:ff9b::8.8.8.8 2001:200::1
2001:4860:4860::8888 2003::1 2606:4700:4700::1111 2a00:1450:4001::1 3ffe::1
"""

#: What is no address as connect() takes it, and would be looked up once more.
NO_ADDRESSES = """
127.1 127.0.1 2130706433 0x7f000001 0x7f.0.0.1 017700000001 0177.0.0.1 127.0.0.01 127.0.0.1. 0 00
localhost example.com 8.8.8.8:80 [::1] 1.1 １２７.0.0.1 ١.1.1.1 ::g 1.2.3.4.5 256.1.1.1 -1
"""

four = st.integers(0, 2**32 - 1).map(IPv4Address)
six = st.integers(0, 2**128 - 1).map(IPv6Address)
#: Most addresses of IPv6 are nothing; those that might be taken for public ones are near these.
near = st.builds(
    lambda start, rest: IPv6Address(int(IPv6Address(start)) | rest),
    st.sampled_from(
        ["2000::", "2001::", "2001:db8::", "2002::", "3fff::", "::ffff:0:0", "64:ff9b::"]
    ),
    st.integers(0, 2**100 - 1),
)


def within(start: str, bits: int) -> st.SearchStrategy[IPv4Address]:
    return st.integers(0, 2**bits - 1).map(lambda rest: IPv4Address(int(IPv4Address(start)) + rest))


inner = st.one_of(
    *(
        within(start, bits)
        for start, bits in (
            *(("10.0.0.0", 24), ("127.0.0.0", 24), ("169.254.0.0", 16), ("172.16.0.0", 20)),
            *(("192.168.0.0", 16), ("100.64.0.0", 22), ("0.0.0.0", 24), ("224.0.0.0", 29)),
        )
    )
)


@pytest.mark.parametrize("address", NOT_PUBLIC.split())
def test_what_is_not_public_is_not_dialled(address: str) -> None:
    assert not PublicAddresses().may_dial(address, 443)


@pytest.mark.parametrize("address", PUBLIC.split())
def test_what_is_public_is_dialled(address: str) -> None:
    assert PublicAddresses().may_dial(address, 443)


@pytest.mark.parametrize(
    "address", [*NO_ADDRESSES.split(), "", " ", "8.8.8.8 ", "8.8.8.8\0", "8.8.8.8\n"]
)
def test_what_connect_would_look_up_once_more_is_not_dialled(address: str) -> None:
    assert not PublicAddresses().may_dial(address, 443)


@pytest.mark.parametrize("port", [0, 22, 25, 79, 81, 442, 444, 5432, 6379, 8080, 65535, -1])
def test_only_the_ports_of_the_web_are_dialled(port: int) -> None:
    assert not PublicAddresses().may_dial("8.8.8.8", port)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1"]
)
def test_an_admin_can_refuse_further_networks_in_every_spelling(address: str) -> None:
    policy = PublicAddresses(refused=tuple(map(ip_network, ["8.8.8.0/24", "2606:4700::/32"])))

    assert not policy.may_dial(address, 443)
    assert policy.may_dial("1.1.1.1", 443)


def test_what_the_configuration_names_may_be_anywhere() -> None:
    assert AnyAddress().may_dial("10.0.0.1", 8080)


@given(four)
def test_an_address_is_judged_alike_plain_mapped_and_translated(address: IPv4Address) -> None:
    judged = is_public(address)

    assert is_public(IPv6Address(f"::ffff:{address}")) is judged
    assert is_public(IPv6Address(f"64:ff9b::{address}")) is judged


@given(four)
def test_what_is_called_public_is_so_to_the_standard_library_too(address: IPv4Address) -> None:
    assert not is_public(address) or (address.is_global and not address.is_multicast)


@given(inner)
def test_no_wrapping_makes_an_inner_address_public(address: IPv4Address) -> None:
    low = int(address)
    wrapped: list[IPv4Address | IPv6Address] = [
        address,
        IPv6Address(low),
        IPv6Address((0xFFFF << 32) | low),
        IPv6Address((0xFFFF << 48) | low),
        IPv6Address(int(IPv6Address("64:ff9b::")) | low),
        IPv6Address(int(IPv6Address("64:ff9b:1::")) | low),
        IPv6Address(int(IPv6Address("2002::")) | (low << 80)),
        IPv6Address(int(IPv6Address("2001::")) | (low << 64)),
        IPv6Address(int(IPv6Address("2001::")) | (low ^ 0xFFFFFFFF)),
    ]

    assert [each for each in wrapped if is_public(each)] == []


@given(st.one_of(six, near))
def test_of_ipv6_only_the_public_part_is_public(address: IPv6Address) -> None:
    if is_public(address):
        low = IPv4Address(int(address) & 0xFFFFFFFF)
        carried = address.ipv4_mapped or (low if address in IPv6Network("64:ff9b::/96") else None)
        assert is_public(carried) if carried else address in IPv6Network("2000::/3")
        assert carried or not (address.is_private or address.is_multicast or address.sixtofour)


@given(st.one_of(four, six, near), st.integers(-1, 70_000))
def test_a_policy_judges_an_address_by_itself_and_its_port(
    address: IPv4Address | IPv6Address, port: int
) -> None:
    may = PublicAddresses().may_dial(str(address), port)

    assert may is (is_public(address) and port in {80, 443})


@given(st.text(max_size=60), st.integers())
def test_no_text_is_dialled_that_is_no_address_and_none_raises(text: str, port: int) -> None:
    PublicAddresses().may_dial(text, port)
