"""The names of REST services are part of the names of their tools."""

import pytest

from skills.rest.settings import RestSettings


@pytest.mark.parametrize("name", ["a__b", "a_", "_a", "A", "a b", "", "x" * 31, "a-"])
def test_a_name_that_could_be_read_in_two_ways_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a service"):
        RestSettings.model_validate({"services": {name: {"document": "x.yaml"}}})
