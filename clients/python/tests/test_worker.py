"""The tool worker against a service that a test directs: what it announces, sends, keeps and resumes."""

import asyncio
import contextlib
import dataclasses
import enum
import json
import os
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from typing import Annotated, Any, Literal

import grpc
from live import PATIENCE, InThread, until
from tool_service import ToolService

import surety
from surety.v1 import receipt_pb2, tool_service_pb2 as api

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "worker.py"


class Colour(enum.Enum):
    """An enum."""

    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: int
    y: int = 0


@contextlib.contextmanager
def serving(worker, **options):
    """A worker that runs beside the test, with its first connection."""
    with ToolService(**options) as service:
        worker._executor = service.address
        running = InThread(worker.run)
        connection, announce = service.connection()
        try:
            yield service, connection, announce
        finally:
            worker.stop()
            running.result()


class Workers(unittest.TestCase):
    """A worker."""

    def test_a_tool_is_announced_with_the_schema_of_its_hints(self):
        worker = surety.Worker("w", max_parallel=3, namespaces=["a"], drain=0)

        @worker.tool(idempotent=True, timeout=90, return_sample="{}")
        def paint(
            place: Point,
            colour: Colour,
            shades: list[float] | None = None,
            mode: Literal["fast", "slow"] = "fast",
            title: Annotated[str, "a title"] = "",
            more: dict[str, Any] = {},  # noqa: B006 - it is not changed
        ) -> None:
            """Paints a point.

            With a colour.
            """

        @worker.tool(name="raw.tool", description="Takes anything.", schema={"type": "object"})
        def anything(call: surety.ToolCall, **arguments):
            return arguments

        with serving(worker) as (_, connection, announce):
            connection.invoke("1", "raw.tool", '{"a": [1]}')
            self.assertEqual(connection.result("1").output, '{"a": [1]}')
        self.assertEqual((announce.worker_id, announce.max_parallel), ("w", 3))
        self.assertEqual(list(announce.namespaces), ["a"])
        tool = announce.tools[0]
        self.assertEqual((tool.name, tool.description), ("paint", "Paints a point.\n\nWith a colour."))
        self.assertEqual((tool.timeout.seconds, tool.return_sample), (90, "{}"))
        self.assertTrue(tool.annotations.idempotent)
        self.assertFalse(tool.annotations.HasField("read_only"))
        schema = json.loads(tool.input_schema_json)
        self.assertEqual((schema["required"], schema["additionalProperties"]), (["place", "colour"], False))
        integer, number = {"type": "integer"}, {"type": "number"}
        point = {"type": "object", "properties": {"x": integer, "y": integer}, "required": ["x"]}
        expected = {
            "place": point,
            "colour": {"enum": ["red", "blue"]},
            "shades": {"anyOf": [{"type": "array", "items": number}, {"type": "null"}], "default": None},
            "mode": {"enum": ["fast", "slow"], "default": "fast"},
            "title": {"type": "string", "description": "a title", "default": ""},
            "more": {"type": "object", "additionalProperties": {}},
        }
        self.assertEqual(schema["properties"], expected)

    def test_what_has_no_schema_is_refused(self):
        worker = surety.Worker("w")

        def no_hint(a):
            pass

        def odd_hint(a: threading.Thread):
            pass

        def rest(*a: int):
            pass

        for function in (no_hint, odd_hint, rest):
            with self.assertRaises(TypeError) as caught:
                worker.tool(function)
            self.assertIn(function.__name__, str(caught.exception))
        worker.tool(name="twice")(lambda: None)
        with self.assertRaises(ValueError):
            worker.tool(name="twice")(lambda: None)
        with self.assertRaises(ValueError):
            surety.Worker("w", max_parallel=0)

    def test_arguments_have_the_types_of_the_hints_and_values_are_results(self):
        worker = surety.Worker("w")
        fact = receipt_pb2.Fact(output=receipt_pb2.Fact.Output(key="k", value="v"))

        @worker.tool
        def sync(place: Point, colour: Colour = Colour.RED) -> dict:
            return {"x": place.x, "y": place.y, "colour": colour.name}

        @worker.tool
        async def later(text: str = "ä") -> surety.ToolOutput:
            await asyncio.sleep(0)
            return surety.ToolOutput(text, summary=" in \n short ", facts=[fact])

        with serving(worker) as (_, connection, _):
            connection.invoke("1", "sync", '{"place": {"x": 1.0}, "colour": "blue"}', fence=7)
            result = connection.result("1")
            self.assertEqual(json.loads(result.output), {"x": 1, "y": 0, "colour": "BLUE"})
            self.assertEqual((result.success, result.fence, result.error), (True, 7, ""))
            connection.invoke("2", "later")
            result = connection.result("2")
            self.assertEqual((result.output, result.summary, list(result.facts)), ("ä", "in short", [fact]))
            for arguments in ('{"place": {"y": 1}}', '{"place": {"x": true}}', '{"other": 1}'):
                connection.invoke("3", "sync", arguments)
                result = connection.result("3")
                self.assertEqual((result.success, result.retryable), (False, False))
                self.assertIn("do not fit", result.error)
            connection.invoke("4", "nothing")
            self.assertIn("nothing", connection.result("4").error)

    def test_what_a_function_raises_is_the_error(self):
        worker = surety.Worker("w")
        errors = {
            "plain": surety.ToolError("no such ticket"),
            "later": surety.ToolError("busy", retry_after=2.5),
            "unknown": surety.OutcomeUnknown(),
            "defect": KeyError("k" * 9000),
        }

        @worker.tool
        def fails(kind: str) -> None:
            raise errors[kind]

        results = {}
        with serving(worker) as (_, connection, _), self.assertLogs("surety.worker", "ERROR"):
            for kind in errors:
                connection.invoke(kind, "fails", json.dumps({"kind": kind}))
                results[kind] = connection.result(kind)
        self.assertEqual((results["plain"].error, results["plain"].retryable), ("no such ticket", False))
        self.assertTrue(results["later"].retryable)
        self.assertEqual(results["later"].retry_after.ToMilliseconds(), 2500)
        self.assertTrue(results["unknown"].outcome_unknown)
        self.assertTrue(results["defect"].error.startswith("KeyError"))
        self.assertLessEqual(len(results["defect"].error.encode()), 4096)
        self.assertFalse(any(result.success for result in results.values()))

    def test_a_large_output_is_sent_in_parts(self):
        worker = surety.Worker("w")

        @worker.tool
        def large(size: int) -> str:
            return "é" * (size // 2)

        with serving(worker) as (_, connection, _):
            connection.invoke("1", "large", '{"size": 600000}')
            parts = [connection.next("output") for _ in range(3)]
            self.assertEqual(b"".join(part.data for part in parts).decode(), "é" * 300_000)
            self.assertLessEqual(max(len(part.data) for part in parts), 262_144)
            result = connection.result("1")
            self.assertEqual((result.success, result.output), (True, ""))
            self.assertLessEqual(len(result.summary.encode()), 1000)
            connection.invoke("2", "large", '{"size": 68000000}')
            self.assertIn("68000000", connection.result("2").error)

    def test_of_many_reports_the_last_is_sent(self):
        worker = surety.Worker("w")
        proceed = threading.Event()

        @worker.tool
        def reports(call: surety.ToolCall) -> None:
            for number in range(100):
                call.progress(f"line\n{number}", number)
            proceed.wait(PATIENCE)

        with serving(worker) as (_, connection, _):
            connection.invoke("1", "reports")
            first, last = connection.next("progress"), connection.next("progress")
            self.assertEqual((first.message, first.percent), ("line 0", 0))
            self.assertEqual((last.message, last.percent, last.fence), ("line 99", 99, 1))
            proceed.set()
            connection.result("1")

    def test_a_cancelled_call_ends_without_a_result(self):
        worker = surety.Worker("w", max_parallel=3)
        ended = []

        @worker.tool
        def sync(call: surety.ToolCall) -> None:
            ended.append(call.wait(PATIENCE))

        @worker.tool
        async def later() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

        with serving(worker) as (_, connection, _):
            connection.invoke("1", "sync")
            connection.invoke("2", "later")
            connection.invoke("3", "sync")
            for call_id in ("1", "2"):
                connection.send(cancel=api.CancelInvocation(call_id=call_id, fence=1, reason="the run ended"))
            until("the ends", lambda: len(ended) == 2)
            # Another fence is another call, and ends the one before.
            connection.send(cancel=api.CancelInvocation(call_id="3", fence=9, reason="of another worker"))
            connection.invoke("3", "later", fence=2)
            until("the end", lambda: len(ended) == 3)
            connection.send(refused=api.Refused(call_id="3", code="lease_lost", message="lost"))
            until("the end", lambda: len(ended) == 4)
        self.assertEqual(ended, [True] * 4)

    def test_calls_go_on_over_the_next_connection(self):
        worker = surety.Worker("w", max_parallel=2)
        proceed = {"1": threading.Event(), "2": threading.Event()}
        begun, ended = [], []

        @worker.tool
        def slow(call: surety.ToolCall) -> str:
            begun.append(call.id)
            proceed[call.id].wait(PATIENCE)
            ended.append(call.id)
            return call.id

        with serving(worker) as (service, connection, first):
            connection.invoke("1", "slow")
            connection.invoke("2", "slow")
            until("the calls", lambda: len(begun) == 2)
            connection.cut()
            connection, second = service.connection()
            self.assertEqual(first, second)
            # One ends before the service gives it again, the other after that.
            proceed["1"].set()
            until("the end", lambda: ended)
            connection.invoke("2", "slow", resumed=True)
            connection.invoke("1", "slow", resumed=True)
            self.assertEqual(connection.result("1").output, "1")
            proceed["2"].set()
            self.assertEqual(connection.result("2").output, "2")
        self.assertEqual(sorted(begun), ["1", "2"])

    def test_a_call_of_an_earlier_process_is_repeated_or_unknown(self):
        worker = surety.Worker("w")

        @worker.tool
        def once() -> str:
            return "called"

        @worker.tool(idempotent=True)
        def again(call: surety.ToolCall) -> str:
            return f"{call.resumed} {call.idempotency_key}"

        with serving(worker) as (_, connection, _):
            connection.invoke("1", "once", resumed=True)
            self.assertTrue(connection.result("1").outcome_unknown)
            connection.invoke("2", "again", resumed=True, idempotency_key="key")
            self.assertEqual(connection.result("2").output, "True key")

    def test_a_call_ends_with_its_lease(self):
        worker = surety.Worker("w")
        begun, ended = threading.Event(), threading.Event()

        @worker.tool
        def slow(call: surety.ToolCall) -> None:
            begun.set()
            if call.wait(PATIENCE):
                ended.set()

        with serving(worker, lease=0.2, heartbeat=0.2) as (service, connection, _):
            connection.invoke("1", "slow")
            self.assertTrue(begun.wait(PATIENCE))
            connection.cut()
            connection, _ = service.connection()
            self.assertTrue(ended.wait(PATIENCE))
            connection.next("heartbeat")

    def test_a_refused_result_ends_the_call_with_why(self):
        worker = surety.Worker("w", retry=surety.Retry(maximum=0.1))

        @worker.tool
        def works() -> str:
            return "ok"

        with serving(worker) as (_, connection, _):
            connection.invoke("1", "works")
            connection.next("result")
            refused = api.Refused(call_id="1", code="database_unavailable", message="later")
            connection.send(refused=refused)
            self.assertTrue(connection.next("result").success)
            connection.send(refused=api.Refused(call_id="1", code="too_large", message="200 facts"))
            self.assertEqual(connection.result("1").error, "too_large: 200 facts")

    def test_a_worker_that_stops_ends_its_calls_first(self):
        worker = surety.Worker("w")
        begun, proceed = threading.Event(), threading.Event()

        @worker.tool
        def slow() -> str:
            begun.set()
            proceed.wait(PATIENCE)
            return "done"

        with serving(worker) as (_, connection, _):
            connection.invoke("1", "slow")
            self.assertTrue(begun.wait(PATIENCE))
            worker.stop()
            connection.next("draining")
            proceed.set()
            self.assertEqual(connection.result("1").output, "done")
            connection.closed()

    def test_what_no_repeat_can_change_ends_the_worker(self):
        for status, kind in (
            (grpc.StatusCode.PERMISSION_DENIED, surety.PermissionDenied),
            (grpc.StatusCode.ALREADY_EXISTS, surety.Conflict),
        ):
            worker = surety.Worker("w")
            with ToolService() as service:
                worker._executor = service.address
                running = InThread(worker.run)
                connection, _ = service.connection()
                connection.cut(status)
                with self.assertRaises(kind):
                    running.result()

    def test_the_example_serves_calls_until_sigterm(self):
        with ToolService() as service:
            environment = {**os.environ, "SURETY_EXECUTOR_URL": service.address}
            process = subprocess.Popen([sys.executable, EXAMPLE, "notes"], env=environment)
            self.addCleanup(process.kill)
            connection, announce = service.connection()
            names = ["release_note", "wait_for_file"]
            self.assertEqual(([tool.name for tool in announce.tools], announce.worker_id), (names, "notes"))
            connection.invoke("1", "release_note", '{"kind": "fixed", "text": "Blocks are joined."}')
            self.assertEqual(connection.result("1").output, "- Fixed: blocks are joined.")
            workspace = str(EXAMPLE.parent)
            connection.invoke("2", "wait_for_file", '{"path": "worker.py"}', workspace=workspace)
            self.assertEqual(json.loads(connection.result("2").output)["path"], "worker.py")
            connection.invoke("3", "wait_for_file", '{"path": "n", "seconds": 1}', workspace=workspace)
            self.assertEqual(connection.next("progress").message, "n does not exist yet")
            process.send_signal(signal.SIGTERM)
            connection.next("draining")
            self.assertTrue(connection.result("3").retryable)
            connection.closed()
            self.assertEqual(process.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
