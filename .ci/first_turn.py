"""One turn with a server that is installed beside this Python; standard library only."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HEAD = "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
REST = "Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
CREATE = {"type": "response.create", "model": "scripted", "store": False, "input": "say: from the wheel"}


def turn(url: str) -> bytes:
    """Send one create to a ``ws:`` URL, and return what comes up to its end."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=60) as peer:
        peer.sendall((HEAD + REST).format(path=place.path, host=place.netloc, key=KEY).encode())
        payload = json.dumps(CREATE, separators=(",", ":")).encode()
        assert len(payload) < 126
        peer.sendall(bytes((0x81, 0x80 | len(payload))) + bytes(4) + payload)  # masked with zeros
        received = b""
        while b'"type":"response.completed"' not in received:
            chunk = peer.recv(65_536)
            assert chunk, received
            received += chunk
    return received


def main() -> None:
    command = [Path(sys.executable).parent / "responses-ref", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        try:
            received = turn(url)
        finally:
            server.send_signal(signal.SIGTERM)
    assert b'"text":"from the wheel"' in received, received
    assert server.returncode == 0, server.returncode
    print(f"one turn with {url}: {received.count(b'.delta')} deltas")


if __name__ == "__main__":
    main()
