"""The proxy: accepts clients, opens each one's own connection to the policy server, answers health and metrics."""

import asyncio
import hmac
import http
import signal
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from speedup_patch.errors import InputError
from speedup_patch.robots import Robot
from speedup_patch.serve.chunks import Accelerator
from speedup_patch.serve.config import ProxyConfig
from speedup_patch.serve.journal import Journal
from speedup_patch.serve.session import Ending, Session, Terms, received
from speedup_patch.serve.wire import pack, scan, with_entry

OPEN_SECONDS = 9.0
"""Time to reach the policy server: openpi's client gives up after 10 seconds and should hear why before that."""
CLOSE_SECONDS = 2.0
"""Time for the other side to say goodbye; a server that is busy with inference does not answer."""
WATCH_SECONDS = 2.0
"""How often the patch folder is looked at."""


class Proxy:
    """Serves one patch to any number of clients; every client has its own accelerator and upstream connection."""

    def __init__(
        self,
        config: ProxyConfig,
        robot: Robot,
        make_accelerator: Callable[[], Accelerator],
        state_keys: tuple[str, ...],
        description: dict[str, Any],
        patch: Path | None = None,
    ) -> None:
        self.config = config
        self.journal = Journal()
        self._make_accelerator = make_accelerator
        self._terms = Terms(robot, state_keys, config.minimum_rows, config.timeout, self.journal, config.idle)
        self._description = pack(description)
        self._patch = patch
        self._sessions: set[Session] = set()
        self._upstreams: dict[ServerConnection, ClientConnection] = {}
        self._guards: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    async def run(self, ready: Callable[[int], None] | None = None) -> None:
        """Serves until ``stop``, then answers what is in flight and returns; tells ``ready`` the port."""
        self._make_accelerator()  # a patch that cannot serve is found out now
        server = await self._listen()
        port = int(server.sockets[0].getsockname()[1])
        self.journal.note("listening", host=self.config.host, port=port, upstream=self.config.upstream)
        watch = asyncio.create_task(self._watch_patch())
        try:
            if ready is not None:
                ready(port)
            await self._stopping.wait()
        finally:
            watch.cancel()
            await self._shut_down(server)

    def stop(self) -> None:
        """Stops accepting clients and ends the conversations once their requests are answered."""
        self._stopping.set()

    async def _listen(self) -> Server:
        context = None
        if self.config.tls is not None:
            certificate, key = self.config.tls
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                context.load_cert_chain(certificate, key)
            except (OSError, ssl.SSLError) as error:
                raise InputError(f"--tls-cert {certificate} with --tls-key {key} cannot be used: {error}") from error
        try:
            return await serve(
                self._converse,
                self.config.host,
                self.config.port,
                process_request=self._admit,
                compression=None,
                max_size=self.config.max_message,
                max_queue=2,
                open_timeout=OPEN_SECONDS + 1,
                close_timeout=CLOSE_SECONDS,
                server_header=None,
                ssl=context,
            )
        except OSError as error:
            raise InputError(f"cannot listen on {self.config.host}:{self.config.port}: {error}") from error

    async def _shut_down(self, server: Server) -> None:
        self.journal.note("shutting_down", clients=len(self._sessions))
        server.close(close_connections=False)
        for session in self._sessions:
            session.drain()
        await server.wait_closed()
        if self._guards:
            await asyncio.wait(self._guards)
        self.journal.note("stopped")

    async def _admit(self, client: ServerConnection, request: Request) -> Response | None:
        """Answers plain HTTP, checks the key, and reaches the policy server before the client is let in."""
        path = request.path.partition("?")[0]
        if path == "/healthz":
            return client.respond(http.HTTPStatus.OK, "OK\n")
        if not self._knows_key(request.headers.get("Authorization")):
            self.journal.fault("wrong_api_key", address=client.remote_address)
            return client.respond(http.HTTPStatus.UNAUTHORIZED, "wrong or missing API key\n")
        if path == "/metrics":
            response = client.respond(http.HTTPStatus.OK, self.journal.render())
            del response.headers["Content-Type"]
            response.headers["Content-Type"] = "text/plain; version=0.0.4; charset=utf-8"
            return response
        try:
            upstream = await self._reach_upstream(request)
        except InvalidStatus as error:
            status, body = error.response.status_code, bytes(error.response.body or b"")[:10000]
            self.journal.fault("upstream_refused", address=client.remote_address, status=status)
            known = status in http.HTTPStatus.__members__.values()
            return client.respond(status if known else http.HTTPStatus.BAD_GATEWAY, body.decode(errors="replace"))
        except (OSError, InvalidHandshake, TimeoutError) as error:
            problem = str(error) or type(error).__name__
            self.journal.fault("upstream_unreachable", address=client.remote_address, error=problem)
            text = f"the policy server at {self.config.upstream} cannot be reached: {problem}\n"
            return client.respond(http.HTTPStatus.BAD_GATEWAY, text)
        self._upstreams[client] = upstream
        guard = asyncio.create_task(self._release(client))
        self._guards.add(guard)
        guard.add_done_callback(self._guards.discard)
        return None

    def _knows_key(self, header: str | None) -> bool:
        if self.config.api_key is None:
            return True
        expected = f"Api-Key {self.config.api_key}".encode()
        return hmac.compare_digest(expected, (header or "").encode(errors="surrogateescape"))

    async def _reach_upstream(self, request: Request) -> ClientConnection:
        authorization = None if self.config.api_key else request.headers.get("Authorization")
        if self.config.upstream_api_key is not None:
            authorization = f"Api-Key {self.config.upstream_api_key}"
        return await connect(
            self.config.upstream,
            additional_headers={"Authorization": authorization} if authorization else None,
            compression=None,
            max_size=self.config.max_message,
            max_queue=2,
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            ping_interval=None,  # a server that is busy with inference answers no pings; requests have a deadline
            proxy=None,
        )

    async def _release(self, client: ServerConnection) -> None:
        """Closes the upstream connection of a client that left before its conversation began."""
        await client.wait_closed()
        if (upstream := self._upstreams.pop(client, None)) is not None:
            await upstream.close()

    async def _converse(self, client: ServerConnection) -> None:
        """One client from its metadata to its end."""
        journal, upstream = self.journal, self._upstreams.pop(client, None)
        if upstream is None:
            return
        journal.connections_total += 1
        journal.connections += 1
        number = journal.connections_total
        journal.note("client_connected", client=number, address=client.remote_address)
        session = Session(number, client, upstream, self._make_accelerator(), self._terms)
        started = time.monotonic()
        try:
            if await self._introduce(client, upstream, number):
                self._sessions.add(session)
                if self._stopping.is_set():
                    session.drain()
                await session.run()
        finally:
            self._sessions.discard(session)
            await upstream.close()
            journal.connections -= 1
            seconds = round(time.monotonic() - started, 3)
            journal.note("client_disconnected", client=number, code=client.close_code, seconds=seconds)

    async def _introduce(self, client: ServerConnection, upstream: ClientConnection, number: int) -> bool:
        """Passes the policy server's metadata on with ours added; False when there was none and all is over."""
        try:
            async with asyncio.timeout(self.config.timeout):
                metadata = await upstream.recv()
            if isinstance(metadata, bytes):
                metadata = with_entry(
                    metadata, scan(metadata, "the policy server's metadata"), "speedup_patch", self._description
                )
        except ConnectionClosed as closed:
            code, reason = received(closed) if closed.rcvd else (CloseCode.BAD_GATEWAY, str(closed))
            ending = Ending(code, reason)
        except TimeoutError:
            ending = Ending(CloseCode.BAD_GATEWAY, "the policy server sent no metadata")
        except InputError as error:
            ending = Ending(CloseCode.BAD_GATEWAY, str(error))
        else:
            try:
                await client.send(metadata)
            except ConnectionClosed as closed:
                ending = Ending(CloseCode.NORMAL_CLOSURE, str(closed))
            else:
                return True
        self.journal.fault("no_introduction", client=number, code=ending.code, reason=ending.reason)
        await ending.say(client)
        return False

    async def _watch_patch(self) -> None:
        """Logs when the patch folder is no longer the one that was loaded, which goes on serving."""
        if self._patch is None:
            return
        loaded = seen = _identity(self._patch)
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = _identity(self._patch)
            if now != seen:
                seen = now
                self.journal.patch_changed = now != loaded
                self.journal.fault(
                    "patch_changed",
                    patch=str(self._patch),
                    note="still serving the patch that was loaded; restart to serve the new one",
                )


async def run_until_signalled(proxy: Proxy, ready: Callable[[int], None] | None = None) -> None:
    """Runs the proxy until SIGTERM or SIGINT; a second signal does not wait for what is in flight."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def stop() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
        proxy.stop()

    for number in signals:
        loop.add_signal_handler(number, stop)
    await proxy.run(ready)


def _identity(patch: Path) -> tuple[int, int, int] | None:
    """Changes when the folder's patch.json is replaced, rewritten or gone."""
    try:
        status = (patch / "patch.json").stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
