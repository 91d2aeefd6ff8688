"""Log lines above the prompt are read as they are, without what a terminal would draw of them."""

import io
import logging

from bot.platforms.terminal.screen import WithoutColours


def test_log_lines_above_the_prompt_have_no_colour_codes() -> None:
    shown = io.StringIO()
    handler = logging.StreamHandler(WithoutColours(shown))

    handler.emit(logging.makeLogRecord({"msg": "\x1b[2m12:00\x1b[0m [\x1b[33mwarning\x1b[0m] so"}))

    assert shown.getvalue() == "12:00 [warning] so\n"
