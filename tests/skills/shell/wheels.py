"""Small wheels and a source distribution, for an installer without a network."""

import io
import tarfile
import zipfile
from pathlib import Path

FILES_OF_SET = ("environment", "pins.txt", "set.json", "wanted.txt")


def put_wheel(folder: Path, name: str, version: str = "1.0", *, needs: str = "") -> None:
    """Put the wheel of a package into a folder: a module and a program of its name."""
    folder.mkdir(exist_ok=True)
    about = f"{name}-{version}.dist-info"
    further = f"Requires-Dist: {needs}\n" if needs else ""
    module = f"VERSION = {version!r}\n\n\ndef main():\n    print('{name} {version}')\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", module)
        wheel.writestr(
            f"{about}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{further}",
        )
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
        wheel.writestr(f"{about}/RECORD", "")


def put_source(folder: Path, name: str, mark: Path) -> None:
    """Put a source distribution into a folder, whose building would write a file."""
    folder.mkdir(exist_ok=True)
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    backend = f"open({str(mark)!r}, 'w').close()\n"
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for path, text in {
            "pyproject.toml": project,
            "backend.py": backend,
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        }.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
