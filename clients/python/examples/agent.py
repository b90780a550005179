"""An agent that repairs examples/repair, with the package `surety`.

python agent.py [IDLE]; SURETY_EXECUTOR_URL and SURETY_TOKEN_FILE say where, and as which driver. It ends when
no step was leased for IDLE seconds, else with Ctrl-C. The run needs `driver: remote`.
"""

import logging
import sys

import surety

# What a model would decide: the calls of each step, in order.
FIXED = "- Fixed: meetings back to back are one block.\n"
CALLS = {
    "read": [surety.call("read_file", path="src/lib.rs")],
    "edit": [
        surety.call(
            "edit_file",
            path="src/lib.rs",
            old_text="if meeting.start < last.end =>",
            new_text="if meeting.start <= last.end =>",
        )
    ],
    "test": [surety.call("run_command", argv=["cargo", "test", "--offline"], timeout_s=300)],
    "changelog": [
        surety.call(
            "edit_file",
            path="CHANGELOG.md",
            old_text="## Unreleased\n",
            new_text="## Unreleased\n\n" + FIXED,
        )
    ],
}


@surety.driver(max_parallel=2)
def decide(context: surety.StepContext) -> surety.Decision:
    """Decides one turn. Put the call of a chat model here, and return `surety.raw(reply)`.

    `context.messages` is the conversation, and `context.tools` are the tools that the step may call.
    """
    calls = CALLS[context.step_id]
    if context.turn <= len(calls):
        return calls[context.turn - 1]
    return surety.next_plan(context.step.done_when or "it is done")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    decide.run(idle=float(sys.argv[1]) if len(sys.argv) > 1 else None)
