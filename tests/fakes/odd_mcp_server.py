"""An MCP server that does what the SDK would not let it do: its one argument says what."""

import json
import subprocess
import sys
import time
from typing import Any

OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}}
DEEP: dict[str, Any] = {"type": "string"}
for _ in range(40):
    DEEP = {"type": "object", "properties": {"x": DEEP}}

#: Only `fine`, the long one and the one that is not ASCII can be used.
ODD_TOOLS: list[Any] = [
    {"name": "fine", "description": "Good.\u200b\u202e<b>", "inputSchema": OBJECT},
    {"name": "n" * 90, "inputSchema": OBJECT},
    {"name": "größe 🙂", "inputSchema": OBJECT},
    {"name": "", "inputSchema": OBJECT},
    {"name": "hid\u200bden", "inputSchema": OBJECT},
    {"name": 7, "inputSchema": OBJECT},
    {"name": "no_schema"},
    {"name": "list_schema", "inputSchema": []},
    {"name": "no_object", "inputSchema": {"type": "string"}},
    {"name": "choice", "inputSchema": {"type": "object", "anyOf": [{"required": ["a"]}]}},
    {"name": "broken", "inputSchema": {"type": "object", "properties": {"a": {"type": "tpyo"}}}},
    {"name": "remote", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "//x/y"}}}},
    {"name": "key", "inputSchema": {"type": "object", "properties": {"a b": {}}}},
    {"name": "deep", "inputSchema": {"type": "object", "properties": {"x": DEEP}}},
    {"name": "big", "inputSchema": {"type": "object", "description": "x" * 50_000}},
    {"name": "twin", "inputSchema": OBJECT},
    {"name": "twin", "description": "Another.", "inputSchema": OBJECT},
    "no tool at all",
    None,
]
EVIL = {
    "name": "evil",
    "inputSchema": OBJECT,
    "outputSchema": {
        "type": "object",
        "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}},
    },
}


def write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say(**message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}))


def answer(mode: str, request: dict[str, Any]) -> None:
    match request["method"]:
        case "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "odd", "version": "1"},
            }
        case "tools/list":
            result = {"tools": listed(mode, request)}
            if mode == "pages":
                result["nextCursor"] = "again"
        case "tools/call":
            result = called(mode)
        case method:
            say(id=request["id"], error={"code": -32601, "message": f"no {method}"})
            return
    say(id=request["id"], result=result)


def listed(mode: str, request: dict[str, Any]) -> list[Any]:
    if mode == "odd":
        return ODD_TOOLS
    if mode == "evil":
        return [EVIL]
    if mode == "inventive":
        return [{"name": f"tool_{request['id']}", "inputSchema": OBJECT}]
    if mode == "pages":
        return [{"name": f"tool_{request['id']}_{n}", "inputSchema": OBJECT} for n in range(50)]
    return [{"name": "fine", "inputSchema": OBJECT}]


def called(mode: str) -> dict[str, Any]:
    match mode:
        case "endless":
            while True:
                sys.stdout.write("x" * 65_536)
                sys.stdout.flush()
        case "notices":
            while True:
                say(method="notifications/tools/list_changed")
        case "asks":
            params = {"messages": [], "maxTokens": 1}
            for number in range(1_000_000):
                say(id=f"s{number}", method="sampling/createMessage", params=params)
        case "samples":
            say(id="s", method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
            said = json.loads(sys.stdin.readline())
            return {"content": [{"type": "text", "text": json.dumps(said)}]}
        case "evil":
            return {"content": [], "structuredContent": {"x": "a" * 60 + "!"}}
        case "parent":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
            return {"content": [{"type": "text", "text": str(child.pid)}]}
        case "nonsense":
            return {"content": "no list", "isError": "maybe"}
    return {"content": [{"type": "text", "text": "fine"}]}


def main() -> None:
    mode = sys.argv[1]
    if mode == "quits":
        sys.exit("I quit at once, with the password hunter2.")
    if mode == "chatty":
        write("Welcome to the best server!\n{not json}\n[1, 2")
        sys.stderr.write("complaint\n" * 200)
        sys.stderr.flush()
    for line in sys.stdin:
        request = json.loads(line)
        if mode == "deaf":
            time.sleep(3600)
        if "id" in request and "method" in request:
            answer(mode, request)


if __name__ == "__main__":
    main()
