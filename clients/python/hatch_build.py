"""Generates the protobuf code of the package while it is built.

In the repository the code is generated from `proto/`. An sdist contains the generated code, so that a wheel
is built from it without the protos.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1] if len(HERE.parents) > 1 else HERE
PROTOS = REPOSITORY / "proto"


def generate(out: Path) -> None:
    """Writes the package `surety.v1` into the folder `out`."""
    files = sorted(str(path) for path in (PROTOS / "surety" / "v1").glob("*.proto"))
    kinds = [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PROTOS}", *kinds, *files]
    subprocess.run(command, check=True)
    text = '"""The messages and stubs of the API, generated from its protos."""\n'
    (out / "surety" / "v1" / "__init__.py").write_text(text)


class CustomBuildHook(BuildHookInterface[Any]):
    """Adds the generated code to sdists and wheels."""

    folder: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generates the code where the protos are."""
        if not (PROTOS / "surety" / "v1").is_dir():
            if not (HERE / "src" / "surety" / "v1" / "run_pb2.py").is_file():
                raise RuntimeError(
                    f"neither {PROTOS} nor generated code exists; build in the repository or an sdist"
                )
            return
        if version == "editable":
            # The import goes to the sources, so the code has to be there; git ignores it.
            generate(HERE / "src")
            return
        self.folder = tempfile.mkdtemp(prefix="surety-generated-")
        generate(Path(self.folder))
        code = str(Path(self.folder) / "surety" / "v1")
        within = "src/surety/v1" if self.target_name == "sdist" else "surety/v1"
        build_data["force_include"][code] = within
        if self.target_name == "sdist":
            build_data["force_include"][str(REPOSITORY / "LICENSE")] = "LICENSE"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes the generated code, which is in the archive."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    generate(Path(sys.argv[1]))
