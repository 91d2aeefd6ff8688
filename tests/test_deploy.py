"""The files in `deploy/`: the image, the services of compose, the unit of systemd."""

import re
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.config.model import Config
from bot.config.problems import all_keys
from tests.rehearsal import DOCKERFILE, Instruction, command_of, instructions

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "retinue.service").read_text("utf-8")
IMAGE = list(instructions(DOCKERFILE.read_text("utf-8")))
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
#: Of retinue, without the database.
OURS = ("migrate", "serve", "worker")


def all_of(word: str) -> list[str]:
    return [each.rest for each in IMAGE if each.word == word]


def commands() -> set[str]:
    from bot.__main__ import build

    return {each.callback.__name__ for each in build().registered_commands if each.callback}


def test_the_image_has_two_stages_and_ends_without_root() -> None:
    last = [each.word for each in IMAGE][-(len(IMAGE) - _second_stage()) :]

    assert len(all_of("FROM")) == 2
    assert all_of("USER") == ["10001:10001"]
    assert last.index("USER") > last.index("RUN")
    assert "pip" not in " ".join(each.rest for each in IMAGE[_second_stage() :])


def _second_stage() -> int:
    return [each.word for each in IMAGE].index("FROM", 1)


def test_the_image_copies_each_package_and_nothing_that_is_ignored() -> None:
    admitted = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line[0] == "!"
    }
    copied = {
        word
        for rest in all_of("COPY")
        if not rest.startswith("--from")
        for word in rest.split()[:-1]
    }

    assert copied == admitted
    assert {"bot", "db", "migrations", "skills"} <= copied
    assert all((ROOT / each).exists() for each in copied)


def test_the_image_runs_a_command_that_exists_and_asks_for_its_health() -> None:
    [health], [entry], [command] = all_of("HEALTHCHECK"), all_of("ENTRYPOINT"), all_of("CMD")
    [environ] = all_of("ENV")
    port = re.search(r"RETINUE__MONITORING__PORT=(\d+)", environ)

    assert command_of(entry) == ["retinue"]
    assert set(command_of(command)) <= commands()
    assert port is not None
    assert f"127.0.0.1:{port[1]}/healthz" in health


def test_only_lines_that_are_marked_need_root() -> None:
    marked = [each for each in IMAGE if each.needs_root]

    assert [each.word for each in marked] == ["RUN"]
    assert "useradd" in marked[0].rest
    assert Instruction("RUN", "x") not in marked


def test_compose_has_a_database_a_migration_one_receiver_and_two_workers() -> None:
    services = COMPOSE["services"]

    assert set(services) == {"postgres", *OURS}
    assert {name: services[name]["command"] for name in OURS} == {name: [name] for name in OURS}
    assert set(OURS) <= commands()
    assert services["worker"]["deploy"]["replicas"] == 2
    assert services["serve"]["depends_on"] == {
        "postgres": {"condition": "service_healthy"},
        "migrate": {"condition": "service_completed_successfully"},
    }


@pytest.mark.parametrize("name", OURS)
def test_each_of_our_services_has_few_rights_and_a_root_that_is_read_only(name: str) -> None:
    service = COMPOSE["services"][name]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"] == "10001:10001"
    assert "ports" not in service


@pytest.mark.parametrize(
    "text", [DOCKERFILE.read_text("utf-8"), (DEPLOY / "compose.yaml").read_text("utf-8")]
)
def test_each_setting_in_a_variable_exists(text: str) -> None:
    known = {".".join(map(str, key)) for key, _ in all_keys(Config)}

    named = {name.lower().replace("__", ".") for name in re.findall(r"\bRETINUE__(\w+?)[=:]", text)}

    assert named
    assert named <= known


def test_the_unit_is_one_for_systemd(tmp_path: Path) -> None:
    """Without systemd here the keys alone are checked."""
    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[method-assign, assignment]
    unit.read_string(UNIT)
    service = dict(unit["Service"])

    assert service["Type"] == "notify"
    assert service["ExecStart"].split()[1] in commands()
    assert int(service["WatchdogSec"]) >= 10
    # See `EXIT_SECONDS`.
    assert int(service["TimeoutStopSec"]) > 8
    assert service["RestartPreventExitStatus"] == "2"
    assert service["User"] == "retinue"
    for key in ("NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictNamespaces"):
        assert service[key] == "yes"
    assert service["ProtectSystem"] == "strict"
    dropin = RawConfigParser()
    dropin.read(DEPLOY / "retinue-sandbox.conf")
    assert dropin["Service"]["RestrictNamespaces"] == "no"
    if analyze := shutil.which("systemd-analyze"):
        # The program is not installed here.
        file = tmp_path / "retinue.service"
        file.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", UNIT))
        done = subprocess.run(
            [analyze, "verify", file], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
