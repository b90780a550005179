"""A tool worker with two tools, with the package `surety`.

python worker.py NAME; SURETY_EXECUTOR_URL and SURETY_TOKEN_FILE say where, and as which worker. The policy of
the namespace has to let it serve the tools, see docs/workers.md. It ends with Ctrl-C or SIGTERM after its
calls.
"""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Annotated, Literal

import surety

worker = surety.Worker(sys.argv[1] if len(sys.argv) > 1 else "example", max_parallel=4)


@worker.tool(read_only=True, open_world=False, return_sample="- Fixed: meetings back to back are one block.")
def release_note(
    kind: Literal["added", "changed", "fixed", "removed"],
    text: Annotated[str, "what a user notices, as one sentence"],
) -> str:
    """Writes a line for a changelog in the style of the house."""
    line = " ".join(text.split()).rstrip(".")
    if not line:
        raise surety.ToolError("the text is empty; say what a user notices")
    return f"- {kind.capitalize()}: {line[0].lower()}{line[1:]}."


@worker.tool(read_only=True, open_world=False, timeout=3600)
async def wait_for_file(path: str, call: surety.ToolCall, seconds: float = 60) -> dict[str, object]:
    """Waits until a file of the workspace exists."""
    file = Path(call.workspace) / path
    for waited in range(int(seconds)):
        if file.exists():
            return {"path": path, "bytes": file.stat().st_size}
        call.progress(f"{path} does not exist yet", int(100 * waited / seconds))
        await asyncio.sleep(1)
    raise surety.ToolError(f"{path} did not appear within {seconds} s", retryable=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    worker.run()
