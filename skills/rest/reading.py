"""Reads an OpenAPI document in a process of its own: `skills.rest.documents` starts it.

The document may be hostile, and parsing a large one would block an event loop. Standard input has a
line of JSON about the service, and then the document.
"""

import json
import sys

from bot.errors import ConfigError
from skills.rest.documents import SENT
from skills.rest.openapi import read
from skills.rest.trees import parsed

if __name__ == "__main__":
    about = json.loads(sys.stdin.buffer.readline())
    try:
        tree = parsed(about["service"], sys.stdin.buffer.read())
        result = SENT.dump_json(read(about["service"], tree, about["wanted"]))
    except ConfigError as error:
        result = SENT.dump_json(str(error))
    sys.stdout.buffer.write(result)
