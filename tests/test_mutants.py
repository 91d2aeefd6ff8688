"""The table of mutants fits the code."""

import pytest

from bench.mutants import MUTANTS, Mutant, problem_of


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: f"{each.path}: {each.text[:30]}")
def test_the_line_that_a_mutant_breaks_is_there(mutant: Mutant) -> None:
    assert problem_of(mutant) == ""
