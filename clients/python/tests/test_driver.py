"""The loop of an agent against live services: turns, leases, deaths, signals, the example."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from live import PATIENCE, REPOSITORY, InThread, Relay, agent_plan, child, driving

import surety

DONE = surety.RunState.Value("RUN_STATE_DONE")
HERE = Path(__file__).resolve().parent
AGENT = HERE.parent / "examples" / "agent.py"


def works(context):
    """Writes the file of the step, then ends the step."""
    if context.turn == 1:
        return surety.call("write_file", path=f"{context.step_id}.txt", content="written\n")
    return surety.next_plan(f"{context.step_id}.txt is written")


class Drivers(unittest.TestCase):
    """Drivers of runs."""

    def setUp(self):
        self.client = surety.Client()
        self.addCleanup(self.client.close)

    def run_of(self, *ids, **options):
        """A run that waits for a driver, and does not outlive the test."""
        run = self.client.create_run(plan=agent_plan(*ids), driver="remote", **options)
        self.addCleanup(self.end, run)
        return run

    def end(self, run):
        """The run has ended."""
        with contextlib.suppress(surety.FailedPrecondition):
            self.client.cancel(run.id)

    def done(self, run):
        """The run is accepted."""
        ended = self.client.wait(run.id, timeout=PATIENCE)
        self.assertEqual(ended.state, DONE, ended)
        return ended

    def test_every_kind_of_decision_is_read(self):
        answers, usage = [], surety.Usage(input_tokens=5, output_tokens=2, model="test")

        @surety.driver
        def decide(context):
            answers.append(context.previous)
            return [
                "no decision at all",
                {"action": "continue", "tool_call": {"name": "list_dir", "arguments": {"path": "."}}},
                surety.call("write_file", path="a.txt", content="a\n").using(usage),
                surety.raw('{"action": "next_plan", "goal_check": "it is written"}', usage),
            ][context.turn - 1]

        run = self.run_of("a")
        with driving(decide, run_id=run.id):
            ended = self.done(run)
        self.assertIsNone(answers[0])
        self.assertTrue(answers[1].correction)
        self.assertIn("a.txt", answers[3].observation)
        self.assertEqual(ended.counters.tokens, 14)

    def test_the_context_is_ready_for_a_chat_model(self):
        contexts = []

        async def decide(context):
            await asyncio.sleep(0)
            contexts.append(context)
            return works(context)

        run = self.run_of("a")
        with driving(decide, run_id=run.id):
            self.done(run)
        first = contexts[0]
        self.assertEqual((first.run_id, first.step_id, first.attempt, first.turn), (run.id, "a", 1, 1))
        roles = [message["role"] for message in contexts[1].messages]
        self.assertEqual(roles[:3], ["system", "user", "assistant"])
        self.assertIn("write_file", [tool.name for tool in first.tools])
        self.assertTrue(first.traceparent.startswith("00-") and first.workspace)

    def test_steps_are_driven_in_parallel(self):
        together = threading.Barrier(3)

        def decide(context):
            if context.turn == 1:
                together.wait(PATIENCE)
            return works(context)

        runs = [self.run_of("a", namespace="parallel") for _ in range(3)]
        with driving(decide, max_parallel=3, namespace="parallel"):
            for run in runs:
                self.done(run)

    def test_a_long_decision_keeps_its_lease(self):
        kept = []

        def decide(context):
            if context.turn == 1:
                # Blocks for longer than a lease, which heartbeats extend.
                lease = context._held.lease.expires_at.ToSeconds() - time.time()
                threading.Event().wait(max(0.0, lease) + 1)
                kept.append(not context.lost)
            return works(context)

        run = self.run_of("a")
        with driving(decide, run_id=run.id):
            self.done(run)
        self.assertEqual(kept, [True])

    def test_a_lost_lease_cancels_the_function(self):
        asked, cancelled = threading.Event(), threading.Event()

        async def decide(context):
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

        run = self.run_of("a")
        with driving(decide, run_id=run.id):
            self.assertTrue(asked.wait(PATIENCE))
            self.client.cancel(run.id)
            self.assertTrue(cancelled.wait(PATIENCE))

    def stuck(self, run, kind):
        """A driver in a process of its own, which was asked for a decision and gives none."""
        process = child(self, str(HERE / "stuck_agent.py"), run.id, kind)
        lines = iter(process.stdout.readline, "")
        self.assertIn("asked\n", lines)
        return process

    def test_another_driver_finishes_after_one_was_killed(self):
        run = self.run_of("a")
        process = self.stuck(run, "blocks")
        with driving(works, run_id=run.id):
            process.kill()
            self.assertEqual(process.wait(PATIENCE), -signal.SIGKILL)
            self.done(run)

    def test_signals_release_the_step(self):
        for kind, number in (
            ("waits", signal.SIGTERM),
            ("blocks", signal.SIGTERM),
            ("waits", signal.SIGINT),
            ("unseen", signal.SIGTERM),
            ("unseen", signal.SIGINT),
        ):
            with self.subTest(kind=kind, signal=number):
                run = self.run_of("a")
                process = self.stuck(run, kind)
                process.send_signal(number)
                said = process.stdout.read()
                self.assertEqual(process.wait(PATIENCE), 0, said)
                self.assertIn("released step a of run", said)
                self.assertNotIn("gave up", said)
                self.assertTrue(said.endswith("ended\n"), said)
                with driving(works, run_id=run.id):
                    self.done(run)

    def test_a_turn_is_applied_once_over_a_broken_connection(self):
        parents = []
        with Relay("SURETY_EXECUTOR_URL") as relay:

            def decide(context):
                parents.append(context.traceparent)
                relay.close()
                relay.open()
                return works(context)

            run = self.run_of("a")
            with driving(decide, run_id=run.id, executor=relay.url):
                self.done(run)
        self.assertIn(parents[0].encode(), relay.sent)
        writes = [one for one in self.client.receipts(run.id) if one.name == "write_file"]
        self.assertEqual(len(writes), 1)

    def test_a_function_that_fails_releases_and_then_ends_the_driver(self):
        def fails(context):
            raise ValueError("no model")

        run = self.run_of("a")
        driver = surety.Driver(fails, run_id=run.id, max_failures=2)
        with self.assertLogs("surety.driver", "ERROR"), self.assertRaises(surety.DriverFailed) as caught:
            driver.run()
        self.assertIsInstance(caught.exception.__cause__, ValueError)
        with driving(works, run_id=run.id):
            self.done(run)

    def test_what_no_repeat_can_change_ends_the_driver(self):
        for options, kind in (
            ({"token": "unknown-0123456789abcdef0123456789abcdef"}, surety.Unauthenticated),
            ({"run_id": "x"}, surety.InvalidInput),
            ({"executor": "executor.test:1"}, surety.ConfigurationError),
        ):
            with self.subTest(options), self.assertRaises(kind):
                InThread(surety.Driver(works, **options).run).result()
        run = self.run_of("a")
        self.client.cancel(run.id)
        InThread(surety.Driver(works, run_id=run.id).run).result()
        with self.assertRaises(ValueError):
            surety.Driver(works, max_parallel=0)

    def test_a_driver_takes_runs_of_its_namespaces_and_labels(self):
        other, wanted = self.run_of("a"), self.run_of("a", labels={"team": "of-this-test", "zone": "x"})
        with driving(works, namespaces=["default"], labels={"team": "of-this-test"}):
            self.done(wanted)
        self.assertFalse(self.client.get_run(other.id).HasField("terminal"))
        with driving(works, run_id=other.id):
            self.done(other)

    def test_an_idle_driver_ends(self):
        InThread(lambda: surety.Driver(works, namespace="nothing-here").run(idle=0.5)).result()


class Example(unittest.TestCase):
    """The agent of examples/."""

    def test_it_carries_the_repair_example_to_its_verdict(self):
        ids = ["read", "edit", "test", "changelog"]
        steps = [{"id": name, "description": name, "done_when": f"{name} is done"} for name in ids]
        for step, before in zip(steps[1:], ids, strict=False):
            step["dependencies"] = [before]
        plan = {
            "title": "Meetings back to back are one block",
            "goal": "Make the project's tests pass and say so in the changelog.",
            "steps": steps,
        }
        checks = [
            {"id": "tests-pass", "kind": "command_success", "target": "cargo test --offline"},
            {"id": "something-changed", "kind": "workspace_change"},
        ]
        policy = {"repeatable_commands": ["cargo test"]}
        with tempfile.TemporaryDirectory() as folder, surety.Client() as client:
            project = Path(folder) / "project"
            subprocess.run([REPOSITORY / "examples/repair/fresh.sh", project], check=True)
            run = client.create_run(
                plan=plan, workspace=str(project), checks=checks, policy=policy, driver="remote"
            )
            # The agent ends with its run.
            subprocess.run([sys.executable, AGENT, run.id], check=True, timeout=300)
            ended = client.wait(run.id, timeout=PATIENCE)
            self.assertEqual(ended.state, DONE, ended)
            results = {result.name: result.passed for result in client.verdict(run.id).results}
        self.assertTrue(results["tests-pass"] and results["something-changed"], results)


if __name__ == "__main__":
    unittest.main()
