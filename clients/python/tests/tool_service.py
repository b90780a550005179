"""A service that speaks the protocol of tool workers as a test tells it to, over a real connection."""

import contextlib
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from live import PATIENCE

from surety.v1 import tool_service_pb2 as api, tool_service_pb2_grpc as rpc


class Connection:
    """One connection of a worker."""

    def __init__(self, context):
        self._context = context
        self._sent, self._received = queue.SimpleQueue(), queue.SimpleQueue()
        self._refusal = None

    def answers(self):
        """What the service sends."""
        while (message := self._sent.get(timeout=PATIENCE)) is not None:
            yield message
        if self._refusal is not None:
            self._context.abort(*self._refusal)

    def read(self, messages):
        """Reads what the worker sends, until it closes."""
        with contextlib.suppress(grpc.RpcError, Exception):
            for message in messages:
                self._received.put(message)
        self._received.put(None)
        # The service ends its side when the worker has.
        self._sent.put(None)

    def send(self, **message):
        """Sends a message to the worker."""
        self._sent.put(api.ConnectResponse(**message))

    def invoke(self, call_id, tool, arguments="{}", fence=1, **fields):
        """Gives a call to the worker."""
        invocation = api.ToolInvocation(
            call_id=call_id, tool=tool, arguments_json=arguments, fence=fence, **fields
        )
        self.send(invocation=invocation)

    def next(self, kind):
        """The next message of the worker, which is of this kind; heartbeats are left out."""
        while True:
            message = self._received.get(timeout=PATIENCE)
            found = message and message.WhichOneof("message")
            if found == "heartbeat" and kind != "heartbeat":
                continue
            assert found == kind, f"{kind} expected, not {message}"
            return message and getattr(message, kind)

    def result(self, call_id):
        """The result of a call, which is then stored."""
        result = self.next("result")
        assert result.call_id == call_id, result
        self.send(stored=api.ResultStored(call_id=call_id, fence=result.fence))
        return result

    def cut(self, status=grpc.StatusCode.UNAVAILABLE):
        """Ends the connection with an error."""
        self._refusal = (status, "cut by the test")
        self._sent.put(None)

    def closed(self):
        """The worker has closed its side."""
        self.next(None)


class ToolService(rpc.ToolServiceServicer):
    """The service."""

    def __init__(self, lease=30.0, heartbeat=5.0):
        self._connections = queue.SimpleQueue()
        self._lease, self._heartbeat = lease, heartbeat
        self._server = grpc.server(ThreadPoolExecutor(8))
        rpc.add_ToolServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(None)

    def Connect(self, messages, context):
        """A worker connects."""
        connection = Connection(context)
        threading.Thread(target=connection.read, args=(messages,), daemon=True).start()
        self._connections.put(connection)
        yield from connection.answers()

    def connection(self):
        """The next connection of a worker, with its announcement, which is accepted."""
        connection = self._connections.get(timeout=PATIENCE)
        announce = connection.next("announce")
        announced = api.Announced(executor_id="test", namespaces=["default"])
        announced.lease.FromNanoseconds(int(self._lease * 1e9))
        announced.heartbeat_interval.FromNanoseconds(int(self._heartbeat * 1e9))
        connection.send(announced=announced)
        return connection, announce
