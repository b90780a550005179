"""Drives steps of runs with `driver: remote` until it is idle for IDLE seconds.

python agent.py GENERATED ADDRESS TOKEN_FILE IDLE; docs/drivers.md explains each call.
"""

import json
import sys
import threading
import time

import grpc

generated, address, token_file, idle = sys.argv[1:]
sys.path.insert(0, generated)
from google.protobuf.duration_pb2 import Duration  # noqa: E402
from surety.v1 import decision_pb2 as words, executor_service_pb2 as api, executor_service_pb2_grpc as rpc  # noqa: E402

# These calls are made again while an executor restarts; docs/drivers.md says which may be repeated.
SAFE = [{"service": "surety.v1.ExecutorService", "method": name} for name in ("LeaseStep", "SubmitDecision", "Heartbeat")]
RETRY = {"maxAttempts": 5, "initialBackoff": "2s", "maxBackoff": "8s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}
CONFIG = json.dumps({"methodConfig": [{"name": SAFE, "retryPolicy": RETRY}]})
driver = rpc.ExecutorServiceStub(grpc.insecure_channel(address, [("grpc.service_config", CONFIG)]))
token = [("authorization", "Bearer " + open(token_file).read().strip())]

# What a model would decide: the calls of each step of examples/repair, in order.
FIXED = "- Fixed: meetings back to back are one block.\n"
CALLS = {
    "read": [("read_file", {"path": "src/lib.rs"})],
    "edit": [("edit_file", {"path": "src/lib.rs", "old_text": "if meeting.start < last.end =>",
                            "new_text": "if meeting.start <= last.end =>"})],
    "test": [("run_command", {"argv": ["cargo", "test", "--offline"], "timeout_s": 300})],
    "changelog": [("edit_file", {"path": "CHANGELOG.md", "old_text": "## Unreleased\n",
                                 "new_text": "## Unreleased\n\n" + FIXED})],
}


def decide(context):
    """Replies to context.messages; put the call of a chat model here."""
    calls = CALLS[context.step.id]
    if context.turn <= len(calls):
        name, arguments = calls[context.turn - 1]
        return json.dumps({"action": "continue", "tool_call": {"name": name, "arguments": arguments}})
    return json.dumps({"action": "next_plan", "goal_check": context.step.done_when or "it is done"})


def beat(fence, done, paused):
    """Keeps the lease while a turn takes long, and notices that the run is paused."""
    while not done.wait(5):
        beats = api.HeartbeatRequest(driver_id="agent.py", fences=[fence])
        try:
            if driver.Heartbeat(beats, metadata=token).stopping:
                paused.set()
        except grpc.RpcError:
            continue  # The next one follows; a lease that was lost shows in the answer to the turn.


def lease_step():
    """Leases the next step, or None after IDLE seconds without one."""
    until = time.monotonic() + int(idle)
    while (left := until - time.monotonic()) > 0:
        wanted = api.LeaseStepRequest(driver_id="agent.py", wait=Duration(seconds=int(left) + 1))
        # An executor that is away is waited for, at most a minute longer than for a step.
        leased = driver.LeaseStep(wanted, metadata=token, wait_for_ready=True, timeout=left + 60)
        if leased.HasField("lease"):
            return leased
        time.sleep(1)  # An executor that restarts answers early.
    return None


while leased := lease_step():
    lease, context = leased.lease, leased.context
    fence = api.StepFence(run_id=lease.run_id, step_id=lease.step_id, lease_epoch=lease.lease_epoch)
    done, paused = threading.Event(), threading.Event()
    threading.Thread(target=beat, args=(fence, done, paused), daemon=True).start()
    while context:
        turn = api.SubmitDecisionRequest(fence=fence, turn=context.turn, raw=decide(context))
        answer = driver.SubmitDecision(turn, metadata=token, timeout=60)
        while (pending := answer.outcome == words.TURN_OUTCOME_PENDING) and not paused.is_set():
            answer = driver.SubmitDecision(turn, metadata=token, timeout=60)
        print(lease.step_id, context.turn, words.TurnOutcome.Name(answer.outcome))
        context = answer.next if answer.HasField("next") else None
        if paused.is_set() and (context or pending):
            # The step waits for the end of the pause, and other runs for this agent.
            driver.ReleaseStep(api.ReleaseStepRequest(fence=fence, reason="the run is paused"), metadata=token)
            break
    done.set()
