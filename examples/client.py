"""Creates a run, follows it, pages its receipts and reads a whole output.

python client.py GENERATED ADDRESS TOKEN_FILE [CA_FILE]; docs/api.md says how to generate the code.
"""

import sys

import grpc

generated, address, token_file, *ca_file = sys.argv[1:]
sys.path.insert(0, generated)
from surety.v1 import run_pb2, run_service_pb2 as api, run_service_pb2_grpc as rpc  # noqa: E402

PLAN = """{"title": "Count", "verify": [{"kind": "command_success", "target": "seq 100000"}],
  "steps": [{"id": "count", "description": "count far",
    "script": [{"name": "run_command", "arguments": {"argv": ["seq", "100000"]}}]}]}"""

if ca_file:
    credentials = grpc.ssl_channel_credentials(open(ca_file[0], "rb").read())
    channel = grpc.secure_channel(address, credentials)
else:
    channel = grpc.insecure_channel(address)
runs = rpc.RunServiceStub(channel)
token = [("authorization", "Bearer " + open(token_file).read().strip())]

created = runs.CreateRun(api.CreateRunRequest(plan_text=PLAN, request_id="count-1"), metadata=token)
for response in runs.WatchRun(api.WatchRunRequest(run_id=created.run.id, follow=True), metadata=token):
    print(response.event.sequence, response.event.WhichOneof("kind"))

receipts, page = [], api.ListReceiptsRequest(run_id=created.run.id, page_size=2)
while True:
    answer = runs.ListReceipts(page, metadata=token)
    receipts += answer.receipts
    if not answer.next_page_token:
        break
    page.page_token = answer.next_page_token
wanted = api.GetOutputRequest(run_id=created.run.id, call_id=receipts[0].call_id)
output = b"".join(part.data for part in runs.GetOutput(wanted, metadata=token))
run = runs.GetRun(api.GetRunRequest(run_id=created.run.id), metadata=token).run
print(f"{run_pb2.RunState.Name(run.state)}: {len(receipts)} receipts, {len(output)} bytes of output")
