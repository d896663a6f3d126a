"""A real, tiny OAuth 2 server on loopback: client credentials against signed JWTs, and the keys to check them."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256


class TokenIssuer:
    """``token_url`` issues, ``keys_url`` is the JWKS. ``requests`` are the forms of who got a token."""

    client_id, client_secret, audience = "worker", "s3cr3t:of the worker", "kafka"

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        self.lifetime_s = 60
        self.requests: list[dict[str, list[str]]] = []
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                wanted = base64.b64encode(f"{issuer.client_id}:{issuer.client_secret}".encode()).decode()
                if self.headers["Authorization"] != f"Basic {wanted}":
                    self._answer(401, {"error": "invalid_client"})
                    return
                issuer.requests.append(form)
                scope = form.get("scope", [""])[0]
                self._answer(200, {"access_token": issuer.token(scope), "expires_in": issuer.lifetime_s})

            def do_GET(self) -> None:
                self._answer(200, issuer.keys())

            def _answer(self, status: int, body: object) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        base = f"http://127.0.0.1:{self._server.server_port}"
        self.token_url, self.keys_url = f"{base}/token", f"{base}/keys"

    def token(self, scope: str) -> str:
        now_s = int(time.time())
        claims = {"sub": self.client_id, "aud": self.audience, "iat": now_s, "exp": now_s + self.lifetime_s}
        parts = [{"alg": "RS256", "kid": "one", "typ": "JWT"}, claims | {"scope": scope}]
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), SHA256())
        return f"{signed}.{_base64url(signature)}"

    def keys(self) -> object:
        numbers = self._key.public_key().public_numbers()
        n, e = (_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (numbers.n, numbers.e))
        return {"keys": [{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": n, "e": e}]}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
