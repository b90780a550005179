"""Serves the tool `word_count` until the executor ends the stream twice in a row, or Ctrl-C.

python worker.py GENERATED ADDRESS TOKEN_FILE [CALLS]; docs/workers.md explains each message.
With CALLS it stops after so many calls.
"""

import json
import queue
import sys
import threading
import time

import grpc

generated, address, token_file, *rest = sys.argv[1:]
sys.path.insert(0, generated)
from surety.v1 import tool_pb2, tool_service_pb2 as api, tool_service_pb2_grpc as rpc  # noqa: E402

token = [("authorization", "Bearer " + open(token_file).read().strip())]
left = int(rest[0]) if rest else None
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = tool_pb2.Tool(name="word_count", description="Counts the words of a text.",
                     input_schema_json=json.dumps(TEXT))
ANNOUNCE = api.Announce(worker_id="worker.py", tools=[TOOL], max_parallel=4)


def word_count(text):
    """The tool itself."""
    return str(len(text.split()))


def answer(call):
    """The result of one call. The fence says under which lease it was made."""
    named = {"call_id": call.call_id, "fence": call.fence}
    try:
        count = word_count(**json.loads(call.arguments_json))
        return api.ToolResult(success=True, summary=f"counted {count} words", output=count, **named)
    except Exception as error:  # Any failure of the tool is the result of the call.
        return api.ToolResult(success=False, error=str(error), **named)


def serve():
    """One stream, until it ends. Answers whether the worker was announced."""
    global left
    outgoing, announced = queue.Queue(), False
    outgoing.put(api.ConnectRequest(announce=ANNOUNCE))
    stream = rpc.ToolServiceStub(grpc.insecure_channel(address)).Connect(iter(outgoing.get, None), metadata=token)
    ended = threading.Event()

    def beat(seconds):
        while not ended.wait(seconds / 2):
            outgoing.put(api.ConnectRequest(heartbeat=api.WorkerHeartbeat()))

    try:
        for response in stream:
            kind = response.WhichOneof("message")
            if kind == "announced":
                announced = True
                interval = response.announced.heartbeat_interval.ToTimedelta().total_seconds()
                threading.Thread(target=beat, args=(interval,), daemon=True).start()
                print("connected", *response.announced.namespaces, flush=True)
            elif kind == "invocation":
                outgoing.put(api.ConnectRequest(result=answer(response.invocation)))
            elif kind == "stored":
                print("answered", response.stored.call_id, flush=True)
                left = None if left is None else left - 1
                if left == 0:
                    return announced
            elif kind == "refused":
                print("refused", response.refused.code, response.refused.message, flush=True)
    except grpc.RpcError as error:
        print("ended", error.code().name, error.details(), flush=True)
    finally:
        ended.set()
        outgoing.put(None)
        stream.cancel()
    return announced


failures = 0
while left != 0 and failures < 2:
    failures = 0 if serve() else failures + 1
    time.sleep(0.2 if left == 0 else 1)
