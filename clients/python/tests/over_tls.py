"""The clients and the loop over TLS; the services present a certificate of SURETY_TLS_CA_FILE."""

import os
import unittest

from live import HELLO, PATIENCE, agent_plan, driving

import surety

DONE = surety.RunState.Value("RUN_STATE_DONE")


class Encrypted(unittest.IsolatedAsyncioTestCase):
    """Calls to https addresses."""

    def test_a_driver_carries_a_run_to_its_verdict(self):
        def decide(context):
            if context.turn == 1:
                return surety.call("write_file", path="a.txt", content="a")
            return surety.next_plan()

        with surety.Client() as client:
            run = client.create_run(plan=agent_plan("a"), driver="remote")
            with driving(decide, run_id=run.id):
                self.assertEqual(client.wait(run.id, timeout=PATIENCE).state, DONE)

    async def test_the_async_client_follows_a_run(self):
        async with surety.AsyncClient() as client:
            run = await client.create_run(plan=HELLO)
            self.assertEqual((await client.wait(run.id, timeout=PATIENCE)).state, DONE)

    def test_a_service_of_another_authority_is_not_called(self):
        authority = os.environ.pop("SURETY_TLS_CA_FILE")
        try:
            with surety.Client(timeout=1) as client, self.assertRaises(surety.Unavailable):
                client.create_run(plan=HELLO)
        finally:
            os.environ["SURETY_TLS_CA_FILE"] = authority


if __name__ == "__main__":
    unittest.main()
