"""What the package says of itself, and whether all that it needs is in it."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_license_is_apache_2_with_its_whole_text() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")

    assert PROJECT["license"] == "Apache-2.0"
    assert PROJECT["license-files"] == ["LICENSE"]
    assert "Apache License\n                           Version 2.0" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "Copyright 2026 The Retinue authors" in text


def test_the_metadata_says_who_made_it_for_what_and_on_what_it_runs() -> None:
    assert PROJECT["authors"] == [{"name": "The Retinue authors"}]
    assert PROJECT["keywords"]
    classifiers = PROJECT["classifiers"]
    assert not [each for each in classifiers if each.startswith("License ::")], "PEP 639"
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)} <= set(
        classifiers
    )


def test_each_python_of_the_metadata_is_tried_or_resolved_and_the_readme_says_what_ran() -> None:
    script = (ROOT / ".ci/pythons").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = [
        each.rpartition(" ")[2]
        for each in PROJECT["classifiers"]
        if each.startswith("Programming Language :: Python :: 3.")
    ]

    assert f"${{PYTHONS:-{' '.join(named)}}}" in script
    assert all(version in readme for version in named)
    assert "it was not run" in readme
    assert readme.count("not tried on real") == 2


def test_a_vulnerability_can_be_reported_in_private() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

    assert "Report a vulnerability" in text
    assert "docs/security.md" in text
