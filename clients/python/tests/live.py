"""Live services for the tests of the package.

SURETY_URL and SURETY_EXECUTOR_URL are the services' addresses. SURETY_TOKEN_FILE names a person and a driver.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import surety

PATIENCE = 90.0
REPOSITORY = Path(__file__).resolve().parents[3]
HELLO = {
    "title": "Write a greeting",
    "steps": [
        {
            "id": "write",
            "description": "Write hello.txt.",
            "script": [{"name": "write_file", "arguments": {"path": "hello.txt", "content": "hello\n"}}],
        }
    ],
    "verify": [
        {"id": "greets", "kind": "content_contains", "target": "hello.txt", "params": {"contains": "hello"}}
    ],
}


def agent_plan(*ids: str) -> dict[str, object]:
    """A plan for an agent: its steps do not wait for each other."""
    steps = [
        {"id": name, "description": f"Write {name}.txt.", "write_scope": [f"{name}.txt"]} for name in ids
    ]
    checks = [{"id": name, "kind": "file_exists", "target": f"{name}.txt"} for name in ids]
    return {"title": "Work for an agent", "steps": steps, "verify": checks}


def until(what, condition):
    """Waits for a condition with a deadline, and answers its value."""
    end, pause = time.monotonic() + PATIENCE, threading.Event()
    while time.monotonic() < end:
        if value := condition():
            return value
        pause.wait(0.05)
    raise AssertionError(f"not in time: {what}")


def label():
    """Labels that no other run has."""
    return {"test": uuid.uuid4().hex}


def child(test, *command):
    """A process whose output the test reads. It ends with the test, and after a deadline."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    late = threading.Timer(PATIENCE, process.kill)
    late.start()
    for end in (process.stdout.close, process.wait, process.kill, late.cancel):
        test.addCleanup(end)
    return process


class InThread:
    """A function that runs beside the test."""

    def __init__(self, function, *arguments):
        self._result, self._error = None, None
        self._thread = threading.Thread(target=self._run, args=(function, arguments), daemon=True)
        self._thread.start()

    def _run(self, function, arguments):
        try:
            self._result = function(*arguments)
        except BaseException as error:
            self._error = error

    def result(self):
        """What it answered, or raised."""
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            raise AssertionError("the function did not end in time")
        if self._error is not None:
            raise self._error
        return self._result


@contextlib.contextmanager
def driving(decide, **options):
    """A driver that works beside the test."""
    driver = surety.Driver(decide, **options)
    thread = InThread(driver.run)
    try:
        yield driver
    finally:
        driver.stop()
        thread.result()


class Relay:
    """A TCP relay to a service, of which a test can cut every connection."""

    def __init__(self, variable):
        parts = urlsplit(os.environ[variable])
        self._service = (parts.hostname, parts.port)
        self._port, self._swallow = 0, False
        #: What callers sent.
        self.sent = b""
        self._guard = threading.Lock()
        self._sockets, self._listener = [], None
        self.open()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def url(self):
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def open(self):
        """Listens, after `close` at the same port again."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        self._port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self):
        """Refuses connections, and cuts those that are open."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self):
        """Cuts every open connection."""
        with self._guard:
            sockets, self._sockets = self._sockets, []
            self._swallow = False
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def swallow(self):
        """Forwards no more answers until the next cut."""
        self._swallow = True

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            service = socket.create_connection(self._service)
            with self._guard:
                self._sockets += [client, service]
            threading.Thread(target=self._copy, args=(client, service, False), daemon=True).start()
            threading.Thread(target=self._copy, args=(service, client, True), daemon=True).start()

    def _copy(self, source, target, answers):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not answers:
                    self.sent += data
                if not (answers and self._swallow):
                    target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
