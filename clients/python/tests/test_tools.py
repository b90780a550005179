"""Tools that the package serves, called by live services: results, lost connections, killed workers."""

import asyncio
import contextlib
import hashlib
import os
import threading
import unittest
import uuid
from pathlib import Path

import grpc
from live import PATIENCE, InThread, Relay, child, until

import surety
from surety.v1 import (
    admin_service_pb2 as admin,
    admin_service_pb2_grpc as rpc,
    receipt_pb2,
    tool_pb2,
    tool_service_pb2 as tools_api,
    tool_service_pb2_grpc as tools_rpc,
)

DONE = surety.RunState.Value("RUN_STATE_DONE")
NAMESPACE = "tools-python"
STUCK = Path(__file__).resolve().parent / "stuck_worker.py"


def as_person(stub, variable, method, request):
    """Makes a call of the generated code."""
    with open(os.environ["SURETY_TOKEN_FILE"]) as file:
        person = next(line.split()[0] for line in file if "operator" in line)
    with grpc.insecure_channel(os.environ[variable].removeprefix("http://")) as channel:
        return getattr(stub(channel), method)(request, metadata=[("authorization", f"Bearer {person}")])


def admit(tools):
    """Lets workers serve these tools in the namespace of the tests."""
    entries = [
        admin.ToolWorkerPolicy(tool=name, identities=["*"], annotations=annotations)
        for name, annotations in tools.items()
    ]
    request = admin.SetNamespacePolicyRequest(
        namespace=NAMESPACE, policy=admin.NamespacePolicy(tool_workers=entries)
    )
    as_person(rpc.AdminServiceStub, "SURETY_URL", "SetNamespacePolicy", request)


def listed(*names):
    """Whether these tools are listed."""
    request = tools_api.ListToolsRequest(namespace=NAMESPACE)
    answer = as_person(tools_rpc.ToolServiceStub, "SURETY_EXECUTOR_URL", "ListTools", request)
    return set(names) <= {tool.name for tool in answer.tools}


@contextlib.contextmanager
def serving(worker):
    """A worker that runs beside the test."""
    running = InThread(worker.run)
    try:
        until("the tools", lambda: listed(*worker._tools))
        yield worker
    finally:
        worker.stop()
        running.result()


def made(**options):
    """A worker with a name of its own."""
    return surety.Worker(uuid.uuid4().hex, namespaces=[NAMESPACE], **options)


class Tools(unittest.TestCase):
    """Tools of a worker."""

    @classmethod
    def setUpClass(cls):
        again = tool_pb2.ToolAnnotations(idempotent=True)
        names = ("test.large", "test.busy", "test.slow", "test.waits", "test.once")
        admit({**dict.fromkeys(names), "test.again": again})

    def setUp(self):
        self.client = surety.Client(namespace=NAMESPACE)
        self.addCleanup(self.client.close)

    def run_of(self, tool, **arguments):
        """A run of one step that calls a tool."""
        step = {"id": "s", "description": "Call.", "script": [{"name": tool, "arguments": arguments}]}
        return self.client.create_run(plan={"title": "Call a tool", "steps": [step]})

    def receipt_of(self, run, tool):
        """The receipt of the call, after the end of the run."""
        self.client.wait(run.id, timeout=PATIENCE)
        return [one for one in self.client.receipts(run.id) if one.name == tool][-1]

    def test_a_call_has_a_result_and_a_receipt_in_the_workers_words(self):
        worker = made()
        fact = receipt_pb2.Fact(output=receipt_pb2.Fact.Output(key="k", value="v"))
        reported = threading.Event()

        @worker.tool(name="test.large")
        async def large(text: str, call: surety.ToolCall, times: int = 50_000) -> surety.ToolOutput:
            call.progress("it is under way", 50)
            while not reported.is_set():
                await asyncio.sleep(0.05)
            return surety.ToolOutput(text * times, summary="repeated", facts=[fact])

        with serving(worker):
            run = self.run_of("test.large", text="äb")
            waits = lambda: str(self.client.list_waits(run_id=run.id))  # noqa: E731
            until("the report", lambda: "it is under way" in waits())
            reported.set()
            ended = self.client.wait(run.id, timeout=PATIENCE)
        self.assertEqual(ended.state, DONE, ended)
        receipt = self.receipt_of(run, "test.large")
        self.assertEqual((receipt.success, receipt.summary), (True, "repeated"))
        self.assertEqual([one.output.key for one in receipt.facts], ["surety.reported_by", "k"])
        self.assertEqual(receipt.output_digest, hashlib.sha256(("äb" * 50_000).encode()).hexdigest())

    def test_a_retryable_call_is_made_again(self):
        worker, keys = made(), []

        @worker.tool(name="test.busy")
        def busy(call: surety.ToolCall) -> str:
            keys.append((call.attempt, call.idempotency_key))
            if call.attempt == 1:
                raise surety.ToolError("busy", retryable=True)
            return "done"

        with serving(worker):
            run = self.run_of("test.busy")
            self.assertEqual(self.client.wait(run.id, timeout=PATIENCE).state, DONE)
        self.assertEqual([attempt for attempt, _ in keys], [1, 2])
        self.assertEqual(len({key for _, key in keys}), 1)

    def test_a_call_goes_on_over_a_broken_connection(self):
        worker, called, proceed = made(), [], threading.Event()

        @worker.tool(name="test.slow")
        def slow(call: surety.ToolCall) -> str:
            called.append(call.id)
            proceed.wait(PATIENCE)
            return "done"

        with Relay("SURETY_EXECUTOR_URL") as relay:
            worker._executor = relay.url
            with serving(worker):
                run = self.run_of("test.slow")
                until("the call", lambda: called)
                relay.close()
                # The result is there before the connection is.
                proceed.set()
                relay.open()
                self.assertEqual(self.client.wait(run.id, timeout=PATIENCE).state, DONE)
        self.assertEqual(len(called), 1)
        self.assertTrue(self.receipt_of(run, "test.slow").success)

    def test_a_cancelled_run_cancels_its_call(self):
        worker, called, ended = made(), threading.Event(), threading.Event()

        @worker.tool(name="test.waits")
        async def waits() -> None:
            called.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        with serving(worker):
            run = self.run_of("test.waits")
            self.assertTrue(called.wait(PATIENCE))
            self.client.cancel(run.id)
            self.assertTrue(ended.wait(PATIENCE))

    def killed(self, tool):
        """A run whose call was given to a worker that was killed, and the name of the worker."""
        name = uuid.uuid4().hex
        process = child(self, str(STUCK), name)
        until("the tool", lambda: listed(tool))
        run = self.run_of(tool)
        self.assertEqual(process.stdout.readline(), "called\n")
        process.kill()
        process.wait(PATIENCE)
        return run, surety.Worker(name, max_parallel=2)

    def test_a_worker_that_restarts_calls_an_idempotent_tool_again(self):
        run, worker = self.killed("test.again")
        resumed = []

        def again(call: surety.ToolCall) -> str:
            resumed.append(call.resumed)
            return "done"

        worker.tool(name="test.again", idempotent=True)(again)
        with serving(worker):
            self.assertEqual(self.client.wait(run.id, timeout=PATIENCE).state, DONE)
        self.assertEqual(len(resumed), 1)

    def test_a_person_is_asked_after_a_worker_that_restarts_lost_any_other_call(self):
        run, worker = self.killed("test.once")
        worker.tool(name="test.once")(lambda: self.fail("it was called twice"))

        def question():
            waits = self.client.list_waits(run_id=run.id)
            return next((wait for wait in waits if "happened" in wait.choices), None)

        with serving(worker):
            self.client.answer(until("a question", question), "fail")
            ended = self.client.wait(run.id, timeout=PATIENCE)
        self.assertEqual(ended.state, surety.RunState.Value("RUN_STATE_FAILED"), ended)

    def test_a_tool_that_no_policy_names_is_refused(self):
        worker = made()
        worker.tool(name="test.other")(lambda: None)
        with self.assertRaises(surety.PermissionDenied) as caught:
            InThread(worker.run).result()
        self.assertEqual(caught.exception.code, "tool_not_granted")


if __name__ == "__main__":
    unittest.main()
