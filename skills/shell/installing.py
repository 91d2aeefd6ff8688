"""Installs the Python packages for commands, with pip or uv; `retinue packages install`.

The installer runs on this machine with the network, so it builds nothing: packages come as wheels,
whose installation runs no code of theirs. A new set is complete before it is used.
"""

import fcntl
import importlib.util
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import distributions
from pathlib import Path

from bot.errors import ConfigError
from bot.files.opener import opened_path
from skills.shell.host import python_below_usr
from skills.shell.packages import (
    CURRENT,
    ENVIRONMENT,
    RECORD,
    SET_NAME,
    PackageSet,
    difference,
    installed,
    normalised,
    python_folder,
)
from skills.shell.recipe import PYTHON
from skills.shell.settings import ShellSettings

#: Variables that the installer gets: none of them is a secret of the bot.
_PASSED = (
    *("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)
_PASSED_BEGINNINGS = ("PIP_", "UV_", "XDG_")
#: These would install elsewhere, or build.
_NOT_PASSED = {"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON", "PIP_NO_BINARY"}
_NOT_PASSED |= {
    "PIP_NO_DEPS",
    "PIP_REQUIREMENT",
    "PIP_EDITABLE",
    "UV_NO_BINARY",
    "UV_SYSTEM_PYTHON",
}
_ABOUT = "import sys; print('%d.%d' % sys.version_info[:2])"
_SECONDS = 20
_MOST_SCRIPT = 100_000
_NO_PYTHON = (
    "Commands have no Python: the sandbox shows the programs of /usr, and there is no python3 "
    "in /usr/bin or /usr/local/bin. Install it there (`apt install python3`)."
)


def python_version(python: str) -> str:
    """Return the version of a Python, such as 3.11; empty if it does not run. This blocks."""
    if not python:
        return ""
    line = (python, "-I", "-c", _ABOUT)
    try:
        done = subprocess.run(  # noqa: S603 - no part of it comes from users
            line, capture_output=True, text=True, check=True, timeout=_SECONDS, env={}
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def state_of(settings: ShellSettings) -> tuple[PackageSet | None, str]:
    """Return the set in use, and how it differs from the configuration; this blocks."""
    found = installed(python_folder(settings))
    version = python_version(python_below_usr()) if found else ""
    return found, difference(settings, found, version)


def install(
    settings: ShellSettings,
    python: str,
    environ: Mapping[str, str],
    *,
    now: datetime,
    upgrade: bool = False,
) -> PackageSet | None:
    """Install the packages of the configuration as the set in use; this blocks.

    Args:
        settings: The configuration.
        python: The Python of commands.
        environ: The variables of this process.
        now: The time to record.
        upgrade: Whether to take new versions; otherwise packages keep their recorded versions.

    Returns:
        The set; `None` where the configuration names no packages.

    Raises:
        ConfigError: The packages cannot be installed. The set in use stays.
    """
    folder = python_folder(settings)
    wanted = settings.wanted_packages
    version = python_version(python)
    if wanted and not version:
        raise ConfigError(_NO_PYTHON)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with alone(folder):
        former = installed(folder)
        if not wanted:
            (folder / CURRENT).unlink(missing_ok=True)
            _remove_others(folder, former)
            return None
        made = folder / secrets.token_hex(8)
        try:
            environment = _new_environment(made / ENVIRONMENT, python, version)
            pins = {} if upgrade or former is None else former.versions
            _run_installer(environment, wanted, pins, python, environ)
            site = environment / "lib" / f"python{version}" / "site-packages"
            versions = {
                normalised(each.metadata["Name"]): each.version
                for each in distributions(path=[str(site)])
            }
            _finish(environment, python, version)
            record = {
                "wanted": wanted,
                "python": version,
                "versions": dict(sorted(versions.items())),
                "made": now.isoformat(timespec="seconds"),
            }
            (made / RECORD).write_text(json.dumps(record, indent=1) + "\n", "utf-8")
            following = folder / f"{CURRENT}.new"
            following.write_text(made.name, "utf-8")
            following.replace(folder / CURRENT)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        found = installed(folder)
        _remove_others(folder, former, found)
        return found


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other installations out during the block.

    Raises:
        ConfigError: Packages are being installed already.
    """
    with opened_path(folder) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise ConfigError(
                "Packages are being installed already: wait for the end of that."
            ) from None


def _new_environment(environment: Path, python: str, version: str) -> Path:
    """Make a virtual environment without packages, which names no path of this machine."""
    (environment / "bin").mkdir(parents=True)
    (environment / "lib" / f"python{version}" / "site-packages").mkdir(parents=True)
    for name in ("python", "python3", f"python{version}"):
        (environment / "bin" / name).symlink_to(python)
    _write_settings(environment, version, with_system=False)
    return environment


def _write_settings(environment: Path, version: str, *, with_system: bool) -> None:
    home = (environment / "bin" / "python").readlink().parent
    text = f"home = {home}\ninclude-system-site-packages = {str(with_system).lower()}\n"
    (environment / "pyvenv.cfg").write_text(f"{text}version = {version}\n", "utf-8")


def _run_installer(
    environment: Path,
    wanted: Sequence[str],
    pins: Mapping[str, str],
    python: str,
    environ: Mapping[str, str],
) -> None:
    lists = environment.parent
    (lists / "wanted.txt").write_text("\n".join(wanted) + "\n", "utf-8")
    pinned = [f"{name}=={version}\n" for name, version in pins.items()]
    (lists / "pins.txt").write_text("".join(pinned), "utf-8")
    inside = environment / "bin" / "python"
    options: tuple[str, ...] = ("--only-binary", ":all:", "-r", str(lists / "wanted.txt"))
    options += ("-c", str(lists / "pins.txt"))
    line: tuple[str, ...]
    if pip := _pip(python):
        line = (*pip, "--python", str(inside), "install", "--no-input", "--no-user")
        line += (
            "--disable-pip-version-check",
            "--no-warn-script-location",
            "--no-compile",
            *options,
        )
        line += ("--root-user-action", "ignore")
    elif uv := shutil.which("uv"):
        line = (uv, "pip", "install", "--python", str(inside), *options)
    else:
        raise ConfigError(
            "There is neither pip nor uv to install packages with: install one (`apt install "
            "python3-pip`) and try again."
        )
    # The folder of the bot may hold files with names of modules.
    done = subprocess.run(line, env=variables_of(environ), cwd=lists, check=False)  # noqa: S603
    if done.returncode:
        raise ConfigError(
            "The packages were not installed, for the reason above; what was installed before "
            "stays. Packages without a wheel for this Python are not built: make one with "
            "`pip wheel NAME -w wheels`, and set PIP_FIND_LINKS to that folder. Where versions "
            "conflict, --upgrade takes new ones."
        )


def variables_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the installer gets, of those of this process (pure)."""
    return {
        name: value
        for name, value in environ.items()
        if (name.upper() in _PASSED or name.startswith(_PASSED_BEGINNINGS))
        and name not in _NOT_PASSED
    }


def _pip(python: str) -> tuple[str, ...]:
    """Return the command line of pip: of the bot's own Python, else of that of commands."""
    if importlib.util.find_spec("pip"):
        return (sys.executable, "-m", "pip")
    line = (python, "-m", "pip")
    tried = subprocess.run((*line, "--version"), capture_output=True, check=False)  # noqa: S603
    return () if tried.returncode else line


def _finish(environment: Path, python: str, version: str) -> None:
    """Let commands see the set at its place in the sandbox, whatever their account."""
    _write_settings(environment, version, with_system=True)
    # A compiled file names its source: as commands see it. Sources that cannot be compiled are
    # examples and templates.
    line = (python, "-I", "-m", "compileall", "-q", "-s", str(environment), "-p", PYTHON)
    subprocess.run((*line, str(environment / "lib")), env={}, check=False, capture_output=True)  # noqa: S603
    for script in (environment / "bin").iterdir():
        if not script.is_symlink() and script.is_file() and script.stat().st_size < _MOST_SCRIPT:
            content = script.read_bytes()
            if content.startswith(b"#!"):
                script.write_bytes(content.replace(os.fsencode(environment), PYTHON.encode()))
    for path in (environment, *environment.rglob("*")):
        if not path.is_symlink():
            can_run = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if can_run else 0o644)


def _remove_others(folder: Path, *kept: PackageSet | None) -> None:
    """Remove sets that no command sees: the former one may be in use."""
    names = {each.folder.name for each in kept if each}
    for path in folder.iterdir():
        if SET_NAME.fullmatch(path.name) and path.name not in names:
            shutil.rmtree(path, ignore_errors=True)
