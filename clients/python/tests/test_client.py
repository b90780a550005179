"""The clients against live services: runs, events, errors, answers, broken connections."""

import asyncio
import itertools
import os
import stat
import tempfile
import threading
import time
import unittest
import uuid
from pathlib import Path

import grpc
from live import HELLO, InThread, Relay, agent_plan, driving, label, until
from opentelemetry import trace

import surety
from surety.v1 import run_service_pb2, run_service_pb2_grpc, verdict_pb2

DONE, FAILED, CANCELLED = (
    surety.RunState.Value(f"RUN_STATE_{name}") for name in ("DONE", "FAILED", "CANCELLED")
)
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def refused(test, kind, code, call, *arguments, **options):
    """The error of a call, which has this class and this code."""
    with test.assertRaises(kind) as caught:
        call(*arguments, **options)
    test.assertEqual(caught.exception.code, code, caught.exception)
    # No exception of the library is shown to a caller.
    test.assertIsNone(caught.exception.__cause__)
    return caught.exception


def runs_with(labels):
    """The runs with these labels, by the generated code."""
    address = os.environ["SURETY_URL"].removeprefix("http://")
    with open(os.environ["SURETY_TOKEN_FILE"]) as file:
        person = next(line.split()[0] for line in file if "submitter" in line)
    with grpc.insecure_channel(address) as channel:
        stub = run_service_pb2_grpc.RunServiceStub(channel)
        request = run_service_pb2.ListRunsRequest(labels=labels)
        return list(stub.ListRuns(request, metadata=[("authorization", f"Bearer {person}")]).runs)


class Runs(unittest.TestCase):
    """Runs of the sync client."""

    def setUp(self):
        self.client = surety.Client()
        self.addCleanup(self.client.close)

    def test_a_run_is_followed_to_its_verdict(self):
        labels = label()
        run = self.client.create_run(plan=HELLO, labels=labels, limits={"step_deadline": 60})
        self.assertEqual((dict(run.labels), run.limits.step_deadline.seconds), (labels, 60))
        numbers = [event.sequence for event in self.client.watch(run.id)]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        ended = self.client.wait(run.id)
        self.assertEqual((ended.state, ended.last_sequence), (DONE, numbers[-1]))
        verdict = self.client.verdict(run.id)
        self.assertTrue(verdict.accepted)
        self.assertIn("greets", [result.name for result in verdict.results])
        receipts = list(self.client.receipts(run.id))
        self.assertIn("write_file", [receipt.name for receipt in receipts])
        self.assertEqual([receipt.seq for receipt in receipts], list(range(1, len(receipts) + 1)))

    def test_checks_of_the_caller_refuse_a_false_claim(self):
        with tempfile.TemporaryDirectory() as workspace:
            run = self.client.create_run(
                plan=HELLO, workspace=workspace, checks=["test -f other.txt"], limits={"max_repairs": 0}
            )
            ended = self.client.wait(run.id, timeout=60)
            self.assertTrue((Path(workspace) / "hello.txt").is_file())
        self.assertEqual(ended.state, FAILED)
        reason = verdict_pb2.StopReason.Value("STOP_REASON_ACCEPT_CHECK_FAILED")
        self.assertEqual(self.client.verdict(run.id).stop_reason, reason)

    def test_a_run_is_cancelled_once(self):
        run = self.client.create_run(plan=agent_plan("a"), driver="remote")
        self.assertEqual(self.client.cancel(run.id, reason="no longer needed").state, CANCELLED)
        self.assertEqual(self.client.cancel(run.id).state, CANCELLED)
        self.assertEqual(self.client.wait(run.id).terminal.status, CANCELLED)
        refused(self, surety.NotFound, "verdict_not_found", self.client.verdict, run.id)

    def test_a_refused_call_has_the_code_the_field_and_the_class(self):
        client, key = self.client, uuid.uuid4().hex
        error = refused(self, surety.NotFound, "run_not_found", client.get_run, str(uuid.uuid4()))
        self.assertTrue(error.advice and not error.retryable, error)
        refused(self, surety.InvalidInput, "invalid_id", client.get_run, "x")
        without_steps = {"title": "T", "steps": []}
        refused(self, surety.InvalidInput, "steps_empty", client.create_run, plan=without_steps)
        create, limits = client.create_run, {"max_repairs": 99}
        error = refused(self, surety.InvalidInput, "limit_out_of_range", create, plan=HELLO, limits=limits)
        self.assertTrue(error.field.endswith("max_repairs"), error)
        run = client.create_run(plan=HELLO, request_id=key)
        self.assertEqual(client.create_run(plan=HELLO, request_id=key).id, run.id)
        conflict = refused(
            self, surety.Conflict, "request_id_conflict", client.create_run, goal="other", request_id=key
        )
        self.assertFalse(conflict.retryable)
        client.wait(run.id)
        refused(self, surety.FailedPrecondition, "run_terminal", client.cancel, run.id)
        with self.assertRaises(surety.NotFound):
            next(client.watch(str(uuid.uuid4())))

    def test_values_that_cannot_be_sent_are_refused_by_their_field(self):
        for options, field in (
            ({"policy": {"nothing": 1}}, "policy.nothing"),
            ({"policy": {"on_budget": "never"}}, "policy.on_budget"),
            ({"policy": {"protect": "one"}}, "policy.protect"),
            ({"limits": {"step_deadline": "1h"}}, "limits.step_deadline"),
            ({"limits": {"max_repairs": "many"}}, "limits.max_repairs"),
            ({"checks": [{"kind": 1}]}, "verify[0].kind"),
            ({"driver": "robot"}, "driver"),
            ({"plan": {"title": object()}}, "plan"),
        ):
            call = self.client.create_run
            error = refused(self, surety.InvalidInput, "type_mismatch", call, **{"goal": "g", **options})
            self.assertEqual(error.field, field)
        call = self.client.approve
        self.assertEqual(refused(self, surety.InvalidInput, "field_missing", call, "id").field, "call_digest")

    def test_tokens_decide(self):
        with surety.Client(token="unknown-0123456789abcdef0123456789abcdef") as client:
            refused(self, surety.Unauthenticated, "unauthenticated", client.create_run, plan=HELLO)
        with open(os.environ["SURETY_TOKEN_FILE"]) as file:
            agent = next(line.split()[0] for line in file if " driver " in line)
        with surety.Client(token=agent) as client:
            refused(self, surety.PermissionDenied, "permission_denied", client.create_run, plan=HELLO)

    def test_deadlines_end_calls_and_waits(self):
        run = self.client.create_run(plan=agent_plan("a"), driver="remote")
        refused(self, surety.DeadlineExceeded, "deadline_exceeded", self.client.wait, run.id, timeout=0.5)
        self.client.cancel(run.id)
        with Relay("SURETY_URL") as relay:
            relay.close()
            with surety.Client(relay.url, timeout=0.5) as client:
                began = time.monotonic()
                # The deadline may end an attempt as well as the pause before the next one.
                with self.assertRaises((surety.Unavailable, surety.DeadlineExceeded)):
                    client.get_run(run.id)
                self.assertLess(time.monotonic() - began, 30)
            with surety.Client(relay.url, retry=surety.Retry(attempts=2)) as client:
                error = refused(self, surety.Unavailable, "service_unavailable", client.get_run, run.id)
                self.assertTrue(error.retryable, error)
            relay.open()

    def test_a_closed_client_refuses_calls(self):
        self.client.close()
        refused(self, surety.Cancelled, "call_cancelled", self.client.get_run, str(uuid.uuid4()))

    def test_calls_carry_the_trace_of_their_caller(self):
        given, current = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE[::-1]}-{SPAN}-01"
        span = trace.NonRecordingSpan(
            trace.SpanContext(int(TRACE[::-1], 16), int(SPAN, 16), True, trace.TraceFlags(1))
        )
        with Relay("SURETY_URL") as relay, surety.Client(relay.url) as client:
            client.create_run(plan=HELLO, traceparent=given)
            # The library sends the names and values of headers as they are.
            self.assertIn(given.encode(), relay.sent)
            with trace.use_span(span):
                client.create_run(plan=HELLO)
            self.assertIn(current.encode(), relay.sent)

    def test_a_question_is_answered_by_its_schema(self):
        schema = {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}

        def decide(context):
            if context.turn == 1:
                return surety.ask_user("Which port?", answer_schema=schema)
            if context.turn == 2:
                text = context.messages[-1]["content"]
                return surety.call("write_file", path="a.txt", content=text)
            return surety.next_plan()

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        run = self.client.create_run(plan=agent_plan("a"), driver="remote", workspace=folder.name)
        with driving(decide, run_id=run.id):
            wait = until("a question", lambda: self.question(run.id))
            call = self.client.answer
            error = refused(self, surety.InvalidInput, "answer_invalid", call, wait, {"port": "x"})
            self.assertIn("port", f"{error.field} {error.message}")
            other = type(wait).FromString(wait.SerializeToString())
            other.question_digest = "0" * 64
            refused(self, surety.FailedPrecondition, "confirmation_mismatch", call, other, {"port": 8080})
            self.client.answer(wait, {"port": 8080})
            ended = self.client.wait(run.id, timeout=60)
        self.assertEqual(ended.state, DONE)
        self.assertIn("8080", (Path(folder.name) / "a.txt").read_text())
        refused(self, surety.FailedPrecondition, "wait_closed", self.client.answer, wait.id, "no")

    def question(self, run_id):
        """The wait for a person."""
        waits = self.client.list_waits(run_id=run_id)
        return next((wait for wait in waits if wait.question or wait.HasField("tool_call")), None)

    def confirmed_run(self, **policy):
        def decide(context):
            if context.turn == 1:
                return surety.confirm("write_file", path="a.txt", content="a\n")
            return surety.next_plan()

        policy = {"confirm_tools": ["write_*"], **policy}
        run = self.client.create_run(plan=agent_plan("a"), driver="remote", policy=policy)
        return run, driving(decide, run_id=run.id)

    def test_a_call_is_approved_as_it_was_shown(self):
        run, driver = self.confirmed_run()
        with driver:
            wait = until("a confirmation", lambda: self.question(run.id))
            self.assertEqual(wait.tool_call.name, "write_file")
            refused(
                self,
                surety.FailedPrecondition,
                "confirmation_mismatch",
                self.client.approve,
                wait.id,
                call_digest="0" * 64,
            )
            self.client.approve(wait, comment="as shown")
            self.assertEqual(self.client.wait(run.id, timeout=60).state, DONE)

    def test_a_denied_call_ends_the_run_if_it_is_to(self):
        run, driver = self.confirmed_run()
        with driver:
            wait = until("a confirmation", lambda: self.question(run.id))
            self.client.deny(wait, comment="no", stop=True)
            ended = self.client.wait(run.id, timeout=60)
        self.assertEqual(ended.state, FAILED)
        reason = verdict_pb2.StopReason.Value("STOP_REASON_CONFIRMATION_DENIED")
        self.assertEqual(ended.terminal.stop_reason, reason)


class Connections(unittest.TestCase):
    """Broken connections."""

    def test_a_watch_goes_on_after_its_last_event(self):
        with Relay("SURETY_URL") as relay, surety.Client() as direct, surety.Client(relay.url) as client:
            run = direct.create_run(plan=agent_plan("a"), driver="remote")
            seen, first = [], threading.Event()

            def follow():
                for event in client.watch(run.id):
                    seen.append(event.sequence)
                    first.set()

            watching = InThread(follow)
            self.assertTrue(first.wait(60), "no event came")
            for _ in range(3):
                relay.close()
                relay.open()
            direct.cancel(run.id)
            watching.result()
            last = direct.get_run(run.id).last_sequence
        self.assertEqual(seen, list(range(1, last + 1)))

    def test_a_run_whose_answer_was_lost_is_created_once(self):
        labels = label()
        with Relay("SURETY_URL") as relay, surety.Client(relay.url) as client:
            # The connection stands before its answers are swallowed.
            with self.assertRaises(surety.NotFound):
                client.get_run(str(uuid.uuid4()))
            relay.swallow()
            creating = InThread(lambda: client.create_run(plan=HELLO, labels=labels))
            until("the run", lambda: runs_with(labels))
            relay.cut()
            run = creating.result()
        self.assertEqual([found.id for found in runs_with(labels)], [run.id])

    def test_a_call_waits_for_a_service_that_comes_back(self):
        with Relay("SURETY_URL") as relay, surety.Client(relay.url) as client:
            relay.close()
            reading = InThread(lambda: client.create_run(plan=HELLO))
            once = surety.Client(relay.url, retry=surety.Retry(attempts=1))
            refused(self, surety.Unavailable, "service_unavailable", once.get_run, str(uuid.uuid4()))
            relay.open()
            self.assertEqual(client.wait(reading.result().id).state, DONE)


class Asyncio(unittest.IsolatedAsyncioTestCase):
    """The async client."""

    async def test_runs_are_followed_at_once(self):
        async with surety.AsyncClient() as client:
            created = await asyncio.gather(*(client.create_run(plan=HELLO) for _ in range(4)))
            ended = await asyncio.gather(*(client.wait(run.id) for run in created))
            self.assertEqual([run.state for run in ended], [DONE] * 4)
            numbers = [event.sequence async for event in client.watch(created[0].id, from_sequence=3)]
            self.assertEqual(numbers, list(range(3, ended[0].last_sequence + 1)))
            self.assertTrue((await client.verdict(created[0].id)).accepted)
            names = [receipt.name async for receipt in client.receipts(created[0].id)]
            self.assertIn("write_file", names)

    async def test_waits_answers_and_errors(self):
        async with surety.AsyncClient() as client:
            run = await client.create_run(plan=agent_plan("a"), driver="remote")
            with self.assertRaises(surety.DeadlineExceeded) as caught:
                await client.wait(run.id, timeout=0.5)
            self.assertIsNone(caught.exception.__cause__)
            self.assertEqual(await client.list_waits(run_id=run.id, namespace="elsewhere"), [])
            for call in (client.approve, client.deny):
                with self.assertRaises(surety.NotFound) as missing:
                    await call(str(uuid.uuid4()), call_digest="0" * 64)
                self.assertEqual(missing.exception.code, "wait_not_found")
            with self.assertRaises(surety.NotFound):
                await client.answer(str(uuid.uuid4()), "text")
            self.assertEqual((await client.cancel(run.id)).state, CANCELLED)
            with self.assertRaises(surety.NotFound):
                await client.verdict(run.id)
        with self.assertRaises(surety.Cancelled):
            await client.get_run(run.id)

    async def test_a_watch_goes_on_after_its_last_event(self):
        with Relay("SURETY_URL") as relay:
            async with surety.AsyncClient() as direct, surety.AsyncClient(relay.url) as client:
                run = await direct.create_run(plan=agent_plan("a"), driver="remote")
                seen = []
                async for event in client.watch(run.id):
                    seen.append(event.sequence)
                    if len(seen) == 1:
                        relay.cut()
                        await direct.cancel(run.id)
                last = (await direct.get_run(run.id)).last_sequence
                self.assertEqual(seen, list(range(1, last + 1)))
                relay.close()
                # Whichever comes first: the refused connection, or the end of the time.
                with self.assertRaises((surety.Unavailable, surety.DeadlineExceeded)):
                    await client.get_run(run.id, timeout=0.5)
                relay.open()


class Configuration(unittest.TestCase):
    """Addresses and tokens; no call is sent."""

    def token_file(self, text, mode=stat.S_IRUSR | stat.S_IWUSR):
        """A file with tokens."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "token"
        path.write_text(text)
        path.chmod(mode)
        return path

    def test_a_token_goes_without_tls_to_loopback_and_named_peers_only(self):
        for address in ("http://127.0.0.1:1", "localhost:1", "[::1]:1", "https://planner.test"):
            surety.Client(address, token="t").close()
        surety.Client("planner.test:7401", token="t", plaintext_peers=["Planner.test"]).close()
        for address in ("http://planner.test:7401", "10.0.0.1:7401"):
            kind, call = surety.ConfigurationError, surety.Client
            error = refused(self, kind, "plaintext_refused", call, address, token="t")
            self.assertIn("SURETY_PLAINTEXT_PEERS", error.message)

    def test_what_cannot_be_used_is_refused(self):
        exposed = self.token_file("t\n", 0o644)
        for options in (
            {"address": "http://"},
            {"address": "ftp://planner.test:1"},
            {"address": "planner.test"},
            {"address": "127.0.0.1:99999"},
            {"address": "127.0.0.1:1", "token": "a b"},
            {"address": "127.0.0.1:1", "token": "ä"},
            {"address": "127.0.0.1:1", "token_file": "/nonexistent"},
            {"address": "127.0.0.1:1", "token_file": exposed},
            {"address": "127.0.0.1:1", "token_file": self.token_file("# nothing\n")},
            {"address": "https://planner.test", "token": "t", "ca_file": "/nonexistent"},
            {"address": "https://planner.test", "token": "t", "cert_file": exposed},
        ):
            with self.subTest(options):
                refused(self, surety.ConfigurationError, "setting_invalid", surety.Client, **options)

    def test_errors_name_code_field_and_advice(self):
        error = surety.InvalidInput("no", code="field_missing", field="goal", advice="Send one.")
        self.assertEqual(str(error), "field_missing at goal: no; Send one.")
        classes = [kind for kind in vars(surety).values() if isinstance(kind, type)]
        errors = [kind for kind in classes if issubclass(kind, surety.SuretyError)]
        self.assertGreaterEqual(len(errors), 14)
        for one, other in itertools.combinations(errors, 2):
            self.assertIsNot(one, other)


if __name__ == "__main__":
    unittest.main()
