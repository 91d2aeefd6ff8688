"""systemd is told when a process is ready, alive, and stopping."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.supervisor import ALIVE, READY, Supervisor


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.setblocking(False)
        yield made


def environ(listener: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": listener.getsockname(), **more}


async def heard(listener: socket.socket) -> str:
    async with asyncio.timeout(10):
        return (await asyncio.get_running_loop().sock_recv(listener, 100)).decode()


async def test_a_state_arrives(listener: socket.socket) -> None:
    Supervisor(environ(listener), 1).notify(READY)

    assert await heard(listener) == "READY=1"


async def test_a_state_arrives_at_an_abstract_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{tmp_path}")
        listener.setblocking(False)

        Supervisor({"NOTIFY_SOCKET": f"@{tmp_path}"}, 1).notify(READY)

        assert await heard(listener) == "READY=1"


async def test_the_watchdog_hears_signs_twice_in_its_time(listener: socket.socket) -> None:
    supervisor = Supervisor(environ(listener, WATCHDOG_USEC="20000", WATCHDOG_PID="7"), 7)

    async with supervisor.watching():
        signs = [await heard(listener) for _ in range(3)]

    assert signs == [ALIVE] * 3
    assert supervisor.seconds == 0.01


def test_a_watchdog_for_another_process_is_left_alone(listener: socket.socket) -> None:
    assert Supervisor(environ(listener, WATCHDOG_USEC="1", WATCHDOG_PID="8"), 7).seconds == 0


def test_without_a_supervisor_or_with_one_that_is_gone_nothing_fails(tmp_path: Path) -> None:
    Supervisor({}, 1).notify(READY)
    Supervisor({"NOTIFY_SOCKET": str(tmp_path / "gone")}, 1).notify(READY)
