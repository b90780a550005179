"""An agent that repairs examples/repair, with the package `surety`.

python agent.py [RUN]; SURETY_EXECUTOR_URL and SURETY_TOKEN_FILE say where, and as which driver. The run needs
`driver: remote`. With a run the agent ends when the run has ended, else with Ctrl-C.
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


@surety.driver(max_parallel=2, run_id=sys.argv[1] if len(sys.argv) > 1 else "")
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
    decide.run()
