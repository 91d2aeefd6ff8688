"""What a look at REST services finds, without and with asking them."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.checks import Check, works
from bot.config.model import Config
from bot.errors import BadRequestError
from bot.values import Json
from skills.rest.checkup import checks, listed
from skills.rest.report import known
from skills.rest.settings import RestServiceSettings, RestSettings
from tests.fakes.rest_server import FakeRest, rest_server

DOCUMENT: Json = {
    "openapi": "3.1.0",
    "paths": {"/ask": {"get": {"operationId": "ask", "summary": "Ask."}}},
}
BY_HAND = {"tell": {"description": "Tell.", "path": "/tell"}}


@pytest.fixture
async def fake() -> AsyncIterator[FakeRest]:
    async with rest_server() as running:
        yield running


async def looked(**services: Json) -> list[Check]:
    settings = RestSettings.model_validate({"services": services})
    return await checks(Config(rest=settings))


async def test_documents_are_read_and_nothing_else_is_asked(fake: FakeRest) -> None:
    fake.document = DOCUMENT
    source = f"{fake.base}/openapi.json"

    good, wrong, by_hand, off = await looked(
        good={"document": source},
        wrong={"document": source, "runs": ["aks"]},
        byhand={"base": fake.base, "requests": BY_HAND},
        off={"base": fake.base, "requests": BY_HAND, "enabled": False},
    )

    assert good == works("good: 1 request; its document was read.")
    assert wrong.good is None
    assert "it has no aks, which the configuration names" in wrong.text
    assert by_hand.good is None
    assert "none was made to try it" in by_hand.text
    assert off.text == "off is off: `rest.services.off.enabled` is false."
    assert fake.asked == ["/openapi.json", "/openapi.json"]


async def test_documents_that_cannot_be_had_are_told(fake: FakeRest, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("{ not closed")

    away, refused, broken, slow = await looked(
        away={"document": "http://127.0.0.1:1/openapi.json"},
        refused={"document": f"{fake.base}/openapi.json"},
        broken={"document": str(tmp_path / "broken.yaml"), "base": fake.base},
        slow={"document": f"{fake.base}/slow", "timeout_seconds": 0.3},
    )

    assert [each.good for each in (away, refused, broken, slow)] == [False] * 4
    assert "away cannot be used: Cannot connect to host" in away.text
    assert "is not to be had (503)" in refused.text
    assert "neither JSON nor YAML" in broken.text
    assert "did not answer within 0.3 seconds" in slow.text


async def test_all_operations_are_listed_with_the_reasons(fake: FakeRest) -> None:
    paths: Json = {f"/p{n}": {"get": {"operationId": f"op{n}"}} for n in range(130)}
    fake.document = {"openapi": "3.1.0", "paths": paths}
    service = {"document": f"{fake.base}/openapi.json", "base": fake.base, "requests": BY_HAND}
    config = Config(rest=RestSettings.model_validate({"services": {"api": service}}))

    everything = (await listed(config, "api")).splitlines()

    assert everything[0] == "op0 (GET /p0): rest__api__op0"
    assert everything[129].startswith("op129 (GET /p129): left out, beyond the 128")
    assert everything[130] == "tell: written down by hand"
    assert everything[131].startswith("left out, beyond the 128")
    assert (await listed(config, "api", "OP129")).startswith("op129 (GET /p129): left out")
    with pytest.raises(BadRequestError, match=r"no REST service 'shop'. There are: api\."):
        await listed(config, "shop")
    (check,) = await checks(config)
    assert "op128 (GET /p128), op129 (GET /p129)" in check.text
    assert check.text.endswith("All operations: `python -m bot rest list api`")


def test_of_a_file_it_is_known_beforehand_whether_it_can_be_read(tmp_path: Path) -> None:
    good, broken = tmp_path / "good.json", tmp_path / "broken.yaml"
    good.write_text(json.dumps(DOCUMENT))
    broken.write_text("{ not closed")

    def of(**given: object) -> str:
        return known("api", RestServiceSettings.model_validate(given))

    assert of(document=str(good), base="https://host") == "1 request to https://host"
    assert "it has no aks" in of(document=str(good), base="https://host", runs=["aks"])
    assert "set `rest.services.api.base`" in of(document=str(good))
    assert of(document=str(broken), base="https://host").startswith("NOT USED: The document of")
    assert "NOT USED: " in of(document=str(tmp_path / "none.json"))
    assert of(base="https://host", requests=BY_HAND) == "1 request to https://host"
    assert "python -m bot doctor" in of(document="https://host/openapi.json")
