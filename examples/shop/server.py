"""HTTP server of the shop: `/webhooks` for events of the service, `/notices` for the payment provider."""

from __future__ import annotations

import http.server
import threading

from shop import Shop

# The first delivery of every event of this many is received and not answered, as by a server that fails.
FAIL_EVERY = 5


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        shop = self.server.shop
        match self.path:
            case "/webhooks":
                status = shop.receive_webhook(dict(self.headers.items()), body)
                if status == 204 and self.server.fails():
                    status = 500
            case "/notices":
                status = shop.receive_notice(self.headers.get("provider-signature", ""), body)
            case _:
                status = 404
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, shop: Shop) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.shop = shop
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._received = 0
        self._lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def fails(self) -> bool:
        with self._lock:
            self._received += 1
            return self._received % FAIL_EVERY == 0

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
