"""Works on tasks of the toolchain until none came for IDLE seconds: leases each, clones, changes, pushes, and reports."""
# python task_agent.py GENERATED EXECUTOR PLANNER TOKEN_FILE IDLE REPOSITORIES; docs/toolchain.md explains each call.
# git clones REPOSITORIES/OWNER/NAME.git with its own credentials.

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time

import grpc

generated, executor, planner, token_file, idle, repositories = sys.argv[1:]
sys.path.insert(0, generated)
from surety.v1 import decision_pb2, executor_service_pb2 as steps, executor_service_pb2_grpc as steps_rpc  # noqa: E402
from surety.v1 import toolchain_service_pb2 as tasks, toolchain_service_pb2_grpc as tasks_rpc  # noqa: E402

driver = steps_rpc.ExecutorServiceStub(grpc.insecure_channel(executor))
toolchain = tasks_rpc.ToolchainServiceStub(grpc.insecure_channel(planner))
token = [("authorization", "Bearer " + open(token_file).read().strip())]
held = []  # The lease of the task that is worked on.


# Changes files of the clone as task.steps say; put the call of a model here. Returns what was changed.
def change(task, context, folder):
    with open(f"{folder}/CHANGES.md", "a", encoding="utf-8") as file:
        file.write(f"- {task.action_type} {context.get('error_summary') or context.get('issue_title') or ''}\n")
    return "CHANGES.md"


# Carries out the steps of a task, and says what was done.
def work(task, call):
    context, number = json.loads(task.context_json), task.number
    is_issue = task.action_type == "issue_assigned"
    branch = f"fix/{number}-{context['brief']}" if is_issue else context.get("branch")
    branch = branch or call("forge_get", {"what": "pull_request"})["head_branch"]
    with tempfile.TemporaryDirectory() as folder:
        def git(*arguments):
            return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout

        git("clone", "--quiet", f"{repositories}/{task.repo}.git", ".")
        base = git("branch", "--show-current").strip()
        git("checkout", "--quiet", *(["-b", branch] if is_issue else [branch]))
        changed = change(task, context, folder)
        git("add", "--all")
        git("-c", "user.name=agent", "-c", "user.email=agent@example.org", "commit", "--quiet", "-m", task.event_type)
        git("push", "--quiet", "origin", branch)
    if is_issue:
        call("forge_open_pr", {"title": f"Fix #{number}", "body": f"Closes #{number}", "head": branch, "base": base})
    return f"Changed {changed} and pushed the branch {branch}."


# A function that calls a tool of the run in its next turn, and returns the JSON or the text of its output.
def caller(fence, turn):
    def call(name, arguments):
        nonlocal turn
        decision = json.dumps({"action": "continue", "tool_call": {"name": name, "arguments": arguments}})
        asked, answer = steps.SubmitDecisionRequest(fence=fence, turn=turn, raw=decision), None
        while answer is None or answer.outcome == decision_pb2.TURN_OUTCOME_PENDING:
            answer = driver.SubmitDecision(asked, metadata=token, timeout=60)
        turn, last = answer.next.turn, answer.observation.splitlines()[-1]
        return json.loads(last) if last.startswith("{") else last
    return call


# Keeps the lease while the work takes long: it lasts 30 s, so a heartbeat may fail.
def beat():
    while True:
        time.sleep(5)
        with contextlib.suppress(grpc.RpcError):
            driver.Heartbeat(steps.HeartbeatRequest(driver_id="task_agent.py", fences=held), metadata=token)


threading.Thread(target=beat, daemon=True).start()
asked = steps.LeaseStepRequest(driver_id="task_agent.py", namespace="_toolchain", wait={"seconds": int(idle)})
while (leased := driver.LeaseStep(asked, metadata=token)).HasField("lease"):
    lease = leased.lease
    fence = steps.StepFence(run_id=lease.run_id, step_id=lease.step_id, lease_epoch=lease.lease_epoch)
    held[:] = [fence]
    handed = toolchain.GetTask(tasks.GetTaskRequest(run_id=lease.run_id), metadata=token)
    print(handed.instructions)
    report = work(handed.task, caller(fence, leased.context.turn))
    # The report ends the step: no decision is submitted. The key makes a repeated call the same report.
    request = tasks.SubmitActionReportRequest(run_id=lease.run_id, report=report, request_id=lease.run_id)
    answer = toolchain.SubmitActionReport(request, metadata=token, timeout=60)
    print(lease.run_id, handed.task.action_type, "accepted" if answer.accepted else answer.reason)
