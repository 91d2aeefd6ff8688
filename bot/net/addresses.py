"""Decides to which addresses the bot may connect (pure).

The decision is made about the very address that a socket is about to connect to, never about the
text of a URL: this covers names, spellings and redirects alike.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Protocol

WEB_PORTS = frozenset({80, 443})

Network = IPv4Network | IPv6Network

#: `ipaddress.is_global` differs: it allows multicast, 6to4, NAT64 and the internal services of
#: clouds (168.63.129.16 is Azure's). The last network is multicast, reserved and broadcast.
_NOT_PUBLIC_4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32"),
            *("169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            "224.0.0.0/3",
        ),
    )
)
#: The public IPv6 addresses assigned so far ...
_PUBLIC_6 = IPv6Network("2000::/3")
#: ... except documentation and tunnels, which carry an IPv4 address to another destination.
_NOT_PUBLIC_6 = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NAT64 = IPv6Network("64:ff9b::/96")


class Addresses(Protocol):
    """Decides to which addresses the bot may connect."""

    def may_dial(self, address: str, port: int) -> bool:
        """Return True if a socket may connect there; `address` is the argument of connect()."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicAddresses:
    """Public addresses, at the ports of the web.

    Attributes:
        refused: Further networks that are refused.
    """

    ports: frozenset[int] = WEB_PORTS
    refused: tuple[Network, ...] = ()

    def may_dial(self, address: str, port: int) -> bool:
        """Return True if a socket may connect there."""
        if port not in self.ports:
            return False
        try:
            parsed = _unwrapped(ip_address(address))
        except ValueError:
            # connect() would resolve this text as a name, after the decision.
            return False
        return is_public(parsed) and not any(parsed in network for network in self.refused)


@dataclass(frozen=True, slots=True)
class AnyAddress:
    """Every address: only for hosts that the configuration itself names."""

    def may_dial(self, address: str, port: int) -> bool:
        """Return True if a socket may connect there."""
        return True


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Return True if an address is on the public internet, judged by the address that it wraps."""
    inner = _unwrapped(address)
    if isinstance(inner, IPv4Address):
        return not any(inner in network for network in _NOT_PUBLIC_4)
    if inner.scope_id is not None or inner not in _PUBLIC_6:
        return False
    return not any(inner in network for network in _NOT_PUBLIC_6)


def _unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address that packets to a mapped or translated address arrive at."""
    if not isinstance(address, IPv6Address) or address.scope_id is not None:
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address
