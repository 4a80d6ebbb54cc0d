"""A web application to preview: it tells what it was sent, and speaks what applications speak."""

import base64
import hashlib
import http.server
import json
import struct
import sys
import time

PAGE = b"""<!doctype html><title>app</title><h1>app</h1><p id=ws>-</p><p id=sse>-</p>
<script>
const put = (id, text) => { document.getElementById(id).textContent = text; };
const socket = new WebSocket("ws://" + location.host + "/socket");
socket.onopen = () => socket.send("hello");
socket.onmessage = (e) => put("ws", e.data);
new EventSource("/events").onmessage = (e) => put("sse", e.data);
</script>"""


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body, status=200, headers=(), kind="application/json"):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        if self.path == "/":
            return self.answer(PAGE, kind="text/html")
        if path == "/events":
            return self.events()
        if path == "/socket":
            return self.socket()
        if path == "/away":
            return self.answer(b"", 302, [("Location", self.path.partition("?")[2])])
        if path == "/cookies":
            return self.answer(b"", 200, [("Set-Cookie", line) for line in (
                "own=1; Path=/; HttpOnly", "wide=1; Domain=localhost", "wide2=1; domain = .localhost ;Path=/x;  DOMAIN=localhost",
                "__Host-sandbox-preview=stolen; Secure; Path=/", "sandbox-preview-" + self.headers["Host"].split(".")[0] + "=stolen")])
        if path == "/large":
            return self.large(int(self.path.partition("?")[2]))
        self.echo()

    do_HEAD = do_PUT = do_DELETE = do_GET

    def do_POST(self):
        if self.path == "/upload":
            digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
            while left > 0:
                chunk = self.rfile.read(min(left, 1 << 20))
                if not chunk:
                    return
                digest.update(chunk)
                left -= len(chunk)
            return self.answer(digest.hexdigest().encode())
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.echo()

    def echo(self):
        self.answer(json.dumps({
            "method": self.command, "target": self.path, "headers": [[k.lower(), v] for k, v in self.headers.items()],
        }).encode())

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for n in range(1000):
            self.wfile.write(f"data: {n} {time.time()}\n\n".encode())
            self.wfile.flush()
            time.sleep(0.05)

    def large(self, size):
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        chunk = b"x" * 65536
        while size > 0:
            self.wfile.write(chunk[:size])
            size -= len(chunk)

    def socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.send_frame(self.headers["Host"].encode())
        while True:
            head = self.rfile.read(2)
            if len(head) < 2 or head[0] & 15 == 8:
                break
            size = head[1] & 127
            if size == 126:
                size = struct.unpack(">H", self.rfile.read(2))[0]
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
            self.send_frame(b"echo " + data)
        self.close_connection = True

    def send_frame(self, data):
        self.wfile.write(bytes([0x81, len(data)]) + data if len(data) < 126 else b"\x81\x7e" + struct.pack(">H", len(data)) + data)
        self.wfile.flush()


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True


with Server(("127.0.0.1", int(sys.argv[1])), App) as server:
    print("listening", flush=True)
    server.serve_forever()
