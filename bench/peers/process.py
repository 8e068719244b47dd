"""A worker in a process of its own, of which a crash and a hang are answers too."""

import json
import os
import select
import signal
import subprocess
import tempfile
import time


class Failed(Exception):
    """What came of the worker, in words."""


class Worker:
    def __init__(self, name, command, timeout):
        self.name = name
        self.timeout = timeout
        self.told = b""
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        self.is_alive = True

    def ask(self, request=None):
        """The answer; `request` is None for what the worker says by itself at its start."""
        if not self.is_alive:
            raise Failed("ended before")
        if request is not None:
            try:
                self.process.stdin.write((json.dumps(request) + "\n").encode())
                self.process.stdin.flush()
            except BrokenPipeError:
                raise Failed(self.ending()) from None
        deadline = time.monotonic() + self.timeout
        while b"\n" not in self.told:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.stop()
                raise Failed(f"no answer within {self.timeout:g} s")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                raise Failed(self.ending())
            self.told += piece
        line, self.told = self.told.split(b"\n", 1)
        try:
            answer = json.loads(line)
        except ValueError:
            self.stop()
            raise Failed(f"answered {line[:80]!r}") from None
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def ending(self):
        """How a process that is at its end has ended."""
        self.is_alive = False
        try:
            status = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.stop()
            return "closed its output"
        self.errors.seek(0)
        last = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
        how = f"exit status {status}"
        if status < 0:
            names = {int(number): number.name for number in signal.Signals}
            how = f"crashed: {names.get(-status, -status)}"
        return ": ".join([how, *last])

    def stop(self):
        self.is_alive = False
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except BrokenPipeError:
                pass
        self.errors.close()
