"""The comparison with other libraries: its pins hold, and its programs and arguments are there."""

import re
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI

from bench import peers
from bench.beside import Load, open_process, written
from bench.cpu import spread_of
from bench.peers.__main__ import FLOOR, OURS, PEERS, asked, rows
from bench.server import CALLS
from bench.stage import ROOT, open_server
from bench.work import MODEL

FOLDER = Path(peers.__file__).parent
PINNED = re.compile(r"[a-z0-9.-]+(\[[a-z0-9,-]+\])?==\S+", re.IGNORECASE)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_everything_that_a_peer_needs_is_pinned_with_hashes_and_names_no_host_or_path(
    peer: peers.__main__.Peer,
) -> None:
    wanted = (FOLDER / f"{peer.name}.in").read_text("utf-8").split()
    pins = peer.pins.read_text("utf-8")
    lines = [line for line in pins.splitlines() if not line.startswith(" ")]

    assert all(PINNED.fullmatch(line) for line in wanted)
    assert all(PINNED.match(line) and line.endswith("\\") for line in lines)
    assert pins.count("--hash=sha256:") >= len(lines)
    assert not re.search(r"://|file:|index-url|(^|\s)/|@ ", pins, re.MULTILINE)
    for line in wanted:
        name, version = re.sub(r"\[.*\]", "", line).split("==")
        assert f"{name}=={version}" in pins
    assert any(line.endswith(f"=={peer.version}") for line in wanted)


def test_each_peer_has_its_program_and_an_environment_in_the_build_folder() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    [named] = re.findall(r"^PEERS := (.*)$", makefile, re.MULTILINE)

    assert named.split() == [peer.name for peer in PEERS]
    for peer in PEERS:
        assert (ROOT / f"{peer.module.replace('.', '/')}.py").exists()
        assert peer.python.is_relative_to(ROOT / "build" / "peers")


def test_the_arguments_choose_peers_runs_and_repetitions() -> None:
    everything, some = asked([]), asked(["--only", "langgraph", "--runs", "3", "--times", "2"])

    assert (everything.load, everything.peers) == (Load(100, 5), list(PEERS))
    assert (some.load, some.peers) == (Load(3, 2), [PEERS[0]])
    with pytest.raises(SystemExit):
        asked(["--only", "nothing"])


def test_each_row_is_a_ratio_to_the_floor() -> None:
    floor, ours = rows({FLOOR: [1.0, 2.0], OURS: [2.0, 2.0]})

    assert floor.measured.startswith(spread_of([1.0, 1.0]))
    assert ours.measured.startswith(spread_of([2.0, 1.0]))


async def test_a_process_beside_does_a_batch_and_one_that_ends_early_is_reported() -> None:
    sent = {"model": MODEL, "system": [{"type": "text", "text": "You are a subagent"}], "tools": []}
    async with open_server() as server:
        with written(sent) as file:
            async with open_process("bench.floor", server, file) as batch:
                assert await batch(Load(2, 1)) > 0
                assert await batch(Load(2, 1, 0.01)) > 0
            async with open_process("bench.floor", server, file, python="/bin/false") as batch:
                with pytest.raises(RuntimeError, match="ended early"):
                    await batch(Load(1, 1))


async def test_the_fake_server_leads_a_run_through_its_calls_in_openais_form() -> None:
    messages: list[Any] = [{"role": "system", "content": "You are a subagent"}]
    finished = []
    async with (
        open_server() as server,
        AsyncOpenAI(api_key="sk-fake", base_url=f"{server.url}/v1") as client,
    ):
        for _ in range(CALLS):
            answer = await client.chat.completions.create(model=MODEL, messages=messages)
            [choice] = answer.choices
            finished.append(choice.finish_reason)
            messages.append(choice.message)
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": "It is a word."}
                for call in choice.message.tool_calls or ()
            ]

    assert finished == ["tool_calls"] * (CALLS - 1) + ["stop"]
    assert "sent=" in (messages[-1].content or "")
