"""A tool worker whose calls note that they began, and are open until a file says that they may end."""

import sys
import time
from pathlib import Path

import surety

_DEADLINE = 120.0
worker = surety.Worker("open", max_parallel=8)
folder = Path(sys.argv[1])


@worker.tool
def note(text: str) -> str:
    """Notes a text, and waits."""
    with (folder / "began").open("a") as began:
        began.write(f"{text}\n")
    end = time.monotonic() + _DEADLINE
    while not (folder / "go").exists():
        if time.monotonic() > end:
            raise surety.ToolError("the call may not end")
        time.sleep(0.02)
    return text


if __name__ == "__main__":
    worker.run()
