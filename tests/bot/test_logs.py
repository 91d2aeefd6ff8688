"""Log lines say whose work they are about, and no secret."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot import logs, masking

SECRET = "sk-ant-api03-abcdefghijklmnop"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Where the log goes; afterwards all is as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield tmp_path / "bot.log"
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def known() -> Iterator[None]:
    """Keep what a test makes secret to that test."""
    before = set(masking._known)
    yield
    masking._known.intersection_update(before)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.usefixtures("known")
def test_no_part_of_a_line_holds_a_secret(file: Path) -> None:
    masking.keep_secret(["correct horse"])
    logs.set_up(form="json", file=str(file))
    log = logging.getLogger("bot.test")

    log.info("With %s in it", "correct horse")
    log.warning("Beside", extra={"body": {"keys": ["correct horse", 1]}, "pair": (SECRET,)})
    log.error("Failed", exc_info=RuntimeError(f"refused {SECRET}"))

    text = file.read_text(encoding="utf-8")
    assert "correct horse" not in text
    assert SECRET not in text
    told, beside, failed = lines(file)
    assert told["event"] == f"With {masking.MASK} in it"
    assert beside["body"] == {"keys": [masking.MASK, 1]}
    assert beside["pair"] == [masking.MASK]
    assert f"RuntimeError: refused {masking.MASK}" in failed["exception"]


def test_a_line_carries_what_it_is_about(file: Path) -> None:
    logs.set_up(form="json", file=str(file))
    log = logging.getLogger("bot.test")

    with logs.bound(run_id="r1", user_id="u1", conversation_id="c1"):
        log.info("At work")
    log.info("Later")

    first, second = lines(file)
    assert (first["event"], first["level"], first["logger"]) == ("At work", "info", "bot.test")
    assert (first["run_id"], first["user_id"], first["conversation_id"]) == ("r1", "u1", "c1")
    assert first["timestamp"].endswith("Z")
    assert "run_id" not in second


def test_libraries_write_through_the_same_formatter_and_less(file: Path) -> None:
    logs.set_up(form="json", file=str(file), level="info")

    logging.getLogger("some.library").info("Heard")
    logging.getLogger("aiosqlite").info("Chatter")
    logging.getLogger("aiosqlite").warning("Trouble")
    logging.getLogger("bot.test").debug("Too small")

    assert [line["event"] for line in lines(file)] == ["Heard", "Trouble"]


def test_setting_it_up_again_writes_each_line_once(file: Path) -> None:
    for _ in range(2):
        logs.set_up(form="json", file=str(file))

    logging.getLogger("bot.test").info("Once")

    assert [line["event"] for line in lines(file)] == ["Once"]


def test_the_form_for_people_is_text(file: Path) -> None:
    logs.set_up(file=str(file))

    logging.getLogger("bot.test").warning("Mind the sheep")

    text = file.read_text(encoding="utf-8")
    assert "Mind the sheep" in text
    assert "\x1b" not in text
    assert not text.startswith("{")


def test_no_name_that_a_model_chose_steers_a_terminal_or_forges_an_entry(file: Path) -> None:
    logs.set_up(file=str(file))
    name = "tool\x1b[2J\x9b1m\r\n2026-01-01 [error] All is lost\u202e\u2028"

    logging.getLogger("bot.x").warning("Refused the tool %s", name, extra={"agent": name})

    written = file.read_text(encoding="utf-8")
    assert written.count("\n") == 1
    assert not set(written) & set("\x1b\x9b\r\u202e\u2028")
    assert "Refused the tool tool\\x1b[2J\\x9b1m\\r\\n2026-01-01" in written


def test_neither_does_one_in_the_form_for_machines_once_it_was_read(file: Path) -> None:
    logs.set_up(file=str(file), form="json")
    name = "tool\x1b[2J\x9b1m\r\n\u202e"

    logging.getLogger("bot.x").warning("Refused", extra={"call": {name: [name]}, "agent": name})

    written = file.read_text(encoding="utf-8")
    assert written.count("\n") == 1
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", texts_of(json.loads(written)))


def texts_of(value: object) -> str:
    """Return all texts in a document, keys included, one after another."""
    if isinstance(value, dict):
        return "".join(texts_of(each) for pair in value.items() for each in pair)
    return "".join(map(texts_of, value)) if isinstance(value, list) else str(value)


def test_a_traceback_keeps_its_lines(file: Path) -> None:
    logs.set_up(file=str(file))
    try:
        int("tool\x1b[2J")
    except ValueError:
        logging.getLogger("bot.x").exception("Failed")

    written = file.read_text(encoding="utf-8")
    assert written.count("\n") > 2
    assert "\x1b" not in written


def test_each_trouble_of_a_library_is_one_line_until_it_is_over(
    file: Path,
) -> None:
    logs.set_up(form="json", file=str(file))
    library = logging.getLogger("some.library")
    once = logs.OncePerChange("connect")
    library.addFilter(once)
    try:
        for seconds in range(10_000):
            library.error("Failed to connect, again in %.2f s", seconds)
        library.error("Failed to connect", exc_info=OSError("refused"))
        library.error("Failed to connect", exc_info=OSError("refused"))
        library.error("Something else")
        logs.connected_again("some.library")
        library.error("Failed to connect, again in %.2f s", 1)
    finally:
        library.removeFilter(once)

    assert [line["event"] for line in lines(file)] == [
        "Failed to connect, again in 0.00 s",
        "Failed to connect (OSError: refused)",
        "Something else",
        "Failed to connect, again in 1.00 s",
    ]


def test_a_quiet_logger_and_those_below_it_are_heard_again_afterwards(file: Path) -> None:
    logs.set_up(form="json", file=str(file))
    below = logging.getLogger("bot.some.part")

    with logs.quiet("bot"), logs.quiet("bot.some"):
        below.warning("Not heard")
    below.warning("Heard")

    assert [line["event"] for line in lines(file)] == ["Heard"]
