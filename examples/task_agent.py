"""Works on tasks of the toolchain until none came for IDLE seconds: leases each, does its steps, and reports.

python task_agent.py GENERATED EXECUTOR PLANNER TOKEN_FILE IDLE; docs/toolchain.md explains each call.
"""

import sys
import threading

import grpc

generated, executor, planner, token_file, idle = sys.argv[1:]
sys.path.insert(0, generated)
from google.protobuf.duration_pb2 import Duration  # noqa: E402
from surety.v1 import executor_service_pb2 as steps, executor_service_pb2_grpc as steps_rpc  # noqa: E402
from surety.v1 import toolchain_service_pb2 as tasks, toolchain_service_pb2_grpc as tasks_rpc  # noqa: E402

driver = steps_rpc.ExecutorServiceStub(grpc.insecure_channel(executor))
toolchain = tasks_rpc.ToolchainServiceStub(grpc.insecure_channel(planner))
token = [("authorization", "Bearer " + open(token_file).read().strip())]


def work(task, instructions):
    """Carries out task.steps and says what was done; put the call of a model here."""
    print(instructions)
    return f"Changed src/list.rs as asked in {task.repo}#{task.number}; CI passed."


def beat(fence, done):
    """Keeps the lease while the work takes long."""
    while not done.wait(5):
        driver.Heartbeat(steps.HeartbeatRequest(driver_id="task_agent.py", fences=[fence]), metadata=token)


wait = Duration(seconds=int(idle))
asked = steps.LeaseStepRequest(driver_id="task_agent.py", namespace="_toolchain", wait=wait)
while leased := driver.LeaseStep(asked, metadata=token):
    if not leased.HasField("lease"):
        break
    lease = leased.lease
    fence = steps.StepFence(run_id=lease.run_id, step_id=lease.step_id, lease_epoch=lease.lease_epoch)
    done = threading.Event()
    threading.Thread(target=beat, args=(fence, done), daemon=True).start()
    handed = toolchain.GetTask(tasks.GetTaskRequest(run_id=lease.run_id), metadata=token)
    try:
        report = work(handed.task, handed.instructions)
        # The report ends the step: no decision is submitted. The key makes a repeated call the same report.
        request = tasks.SubmitActionReportRequest(run_id=lease.run_id, report=report, request_id=lease.run_id)
        answer = toolchain.SubmitActionReport(request, metadata=token, timeout=60)
        print(lease.run_id, handed.task.action_type, "accepted" if answer.accepted else answer.reason)
    finally:
        done.set()
