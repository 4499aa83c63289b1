"""What can go wrong between a client and a policy server: nothing hangs, everything leaves a line in the log."""

import asyncio
import os
import shutil
import socket
import struct
from pathlib import Path

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

import speedup_patch.serve.proxy as proxy_module
from serve.openpi_stand_in import (
    EverySecondRow,
    ask,
    client,
    counting_policy,
    finish,
    observation,
    openpi_server,
    packb,
    running_proxy,
    serving,
    settled,
    unpackb,
)
from speedup_patch.errors import InputError
from speedup_patch.robots import find_robot
from speedup_patch.serve.config import ProxyConfig

ALOHA = find_robot("aloha")
SHORT = 1.0
"""Seconds the policy server is given where it is to be too slow; a healthy one needs milliseconds, but may have to wait
for a busy processor."""


async def closing(connection) -> tuple[int, str]:
    """The close code and reason the client is given after whatever it is still sent."""
    with pytest.raises(ConnectionClosed) as closed:
        await connection.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code, closed.value.rcvd.reason


async def is_let_go(proxy) -> None:
    """Waits until the proxy holds no client any more."""
    while proxy.journal.connections:
        await asyncio.sleep(0.01)


def test_the_policy_server_is_down_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with openpi_server(counting_policy) as address:
            pass
        async with running_proxy(address) as (proxy, to):
            with pytest.raises(InvalidStatus) as refused:
                async with client(to):
                    pass
            assert refused.value.response.status_code == 502
            assert address.encode() in (refused.value.response.body or b"")
            assert proxy.journal.faults["upstream_unreachable"] == 1
            async with (
                openpi_server(counting_policy, port=int(address.rsplit(":", 1)[1])),
                client(to) as (connection, _),
            ):
                assert (await ask(connection, observation(4.0)))["tag"] == 4.0

    finish(check())
    assert "upstream_unreachable" in caplog.text


def test_the_policy_server_dies_in_the_middle_of_a_request(caplog: pytest.LogCaptureFixture) -> None:
    async def dies(websocket) -> None:
        await websocket.send(packb({}))
        await websocket.recv()
        websocket.transport.abort()

    async def check() -> tuple[int, str]:
        async with serving(dies) as upstream, running_proxy(upstream) as (proxy, to), client(to) as (connection, _):
            await connection.send(packb(observation(0.0)))
            ending = await closing(connection)
            await is_let_go(proxy)
        return ending

    assert finish(check()) == (1014, "the connection to the policy server was lost")
    assert "upstream_closed" in caplog.text


def test_the_policy_server_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """Not even the close frame is answered, as when the server's event loop is stuck in inference."""
    release = asyncio.Event()

    async def hangs(websocket) -> None:
        await websocket.send(packb({}))
        await websocket.recv()
        websocket.transport.pause_reading()
        await release.wait()

    async def check() -> None:
        async with serving(hangs) as upstream, running_proxy(upstream, timeout=SHORT) as (proxy, to):
            async with client(to) as (connection, _):
                await connection.send(packb(observation(0.0)))
                assert await closing(connection) == (1014, f"the policy server gave no answer within {SHORT:g} seconds")
            assert proxy.journal.faults["upstream_timeout"] == 1
            await is_let_go(proxy)
            release.set()

    finish(check())
    assert "upstream_timeout" in caplog.text


def test_the_deadline_counts_per_request_and_not_while_idle() -> None:
    async def slow(request: dict) -> dict:
        await asyncio.sleep(0.3 * SHORT)
        return counting_policy(request)

    async def check() -> None:
        async with openpi_server(slow) as upstream, running_proxy(upstream, timeout=SHORT) as (proxy, to):
            async with client(to) as (connection, _):
                for tag in range(4):
                    assert (await ask(connection, observation(tag)))["tag"] == tag
                await asyncio.sleep(1.1 * SHORT)
                assert (await ask(connection, observation(9.0)))["tag"] == 9.0
            assert not proxy.journal.faults

    finish(check())


def test_the_policy_server_sends_no_metadata_or_garbage_as_metadata() -> None:
    async def silent(websocket) -> None:
        await websocket.wait_closed()

    async def garbage(websocket) -> None:
        await websocket.send(b"\xc1\xc1")
        await websocket.wait_closed()

    async def slams(websocket) -> None:
        websocket.transport.abort()

    async def check() -> None:
        for server, text in ((silent, "no metadata"), (garbage, "not a msgpack map"), (slams, "no close frame")):
            async with serving(server) as upstream, running_proxy(upstream, timeout=SHORT) as (proxy, to):
                async with connect(to, compression=None, proxy=None) as connection:
                    code, reason = await closing(connection)
                assert code == 1014
                assert text in reason
                assert proxy.journal.faults["no_introduction"] == 1
                await is_let_go(proxy)

    finish(check())


NAN = np.full((8, 14), np.nan, np.float32)
BAD_REPLIES = {
    "garbage": (b"\xc1garbage", "not a msgpack map"),
    "cut short": (packb({"actions": np.zeros((8, 14))})[:-9], "not a msgpack map"),
    "not a map": (packb([1, 2]), "not a msgpack map"),
    "NaN": (packb({"actions": NAN}), "NaN"),
    "too few dimensions": (packb({"actions": np.zeros((8, 13))}), "(8, 13)"),
    "one row only": (packb({"actions": np.zeros(14)}), "(14,)"),
    "no rows": (packb({"actions": np.zeros((0, 14))}), "(0, 14)"),
    "integers": (packb({"actions": np.zeros((8, 14), int)}), "int64"),
    "text": (packb({"actions": "left"}), "not an array"),
    "twice": (b"\x82" + packb("actions") + packb(1.0) + packb("actions") + packb(2.0), "twice"),
    "objects": (packb({"actions": {b"__ndarray__": True, b"data": b"12345678", b"dtype": "|O", b"shape": [1]}}), "|O"),
    "more shape than data": (
        packb({"actions": {b"__ndarray__": True, b"data": b"", b"dtype": "<f8", b"shape": [2**40, 14]}}),
        "0 bytes of data",
    ),
}


@pytest.mark.parametrize("kind", BAD_REPLIES)
def test_a_bad_reply_is_an_error_to_the_client_and_never_passed_on(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    reply, text = BAD_REPLIES[kind]

    async def bad(websocket) -> None:
        await websocket.send(packb({}))
        await websocket.recv()
        await websocket.send(reply)
        await websocket.wait_closed()

    async def check() -> None:
        async with serving(bad) as upstream, running_proxy(upstream) as (proxy, to):
            async with client(to) as (connection, _):
                with pytest.raises(RuntimeError) as error:
                    await ask(connection, observation(0.0))
                assert text in str(error.value)
                assert (await closing(connection))[0] == 1011
            assert proxy.journal.faults["refused"] == 1
            await is_let_go(proxy)

    finish(check())
    assert text in caplog.text.encode().decode("unicode_escape")


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"images": 1, "tag": 0}, "no 'state'; it has 'images', 'tag'"),
        ({"state": np.zeros(13), "tag": 0}, "(13,)"),
        ({"state": np.full(14, np.inf), "tag": 0}, "NaN"),
        ({"state": {"left": 1}, "tag": 0}, "not an array"),
        ({"state": np.array(["a"] * 14), "tag": 0}, "not numbers"),
    ],
)
def test_an_observation_without_a_usable_state_is_an_error_to_the_client(request_: dict, text: str) -> None:
    async def check() -> None:
        async with openpi_server(counting_policy) as upstream, running_proxy(upstream) as (_, to):
            async with client(to) as (connection, _):
                with pytest.raises(RuntimeError) as error:
                    await ask(connection, request_)
                assert text in str(error.value)
                assert (await closing(connection))[0] == 1011
            async with client(to) as (connection, _):
                assert (await ask(connection, observation(2.0)))["tag"] == 2.0

    finish(check())


def test_a_reply_without_actions_passes_unchanged() -> None:
    async def check() -> dict:
        async with (
            openpi_server(lambda request: {"status": "warm"}) as upstream,
            running_proxy(upstream) as (proxy, to),
        ):
            async with client(to) as (connection, _):
                reply = await ask(connection, {"warm_up": True})
            assert proxy.journal.faults["reply_without_actions"] == 1
        return reply

    assert finish(check()) == {"status": "warm", "server_timing": {"infer_ms": 1.25}}


def test_messages_above_the_bound_are_refused_from_either_side() -> None:
    big = b"\x00" * 5000

    async def too_big(websocket) -> None:
        await websocket.send(packb({}))
        await websocket.recv()
        await websocket.send(packb({"actions": np.zeros((8, 14)), "more": big}))
        await websocket.wait_closed()

    async def check() -> None:
        async with (
            openpi_server(counting_policy) as upstream,
            running_proxy(upstream, max_message=4096) as (_, to),
            client(to) as (connection, _),
        ):
            await connection.send(packb(observation(0.0, image=big)))
            assert (await closing(connection))[0] == 1009
        async with serving(too_big) as upstream, running_proxy(upstream, max_message=4096) as (proxy, to):
            async with client(to) as (connection, _):
                await connection.send(packb(observation(0.0)))
                code, reason = await closing(connection)
                assert code == 1014
                assert "4096" in reason
            await is_let_go(proxy)

    finish(check())


def test_a_frame_that_declares_a_gigabyte_is_refused_before_it_is_read() -> None:
    async def check() -> bytes:
        async with openpi_server(counting_policy) as upstream, running_proxy(upstream) as (proxy, to):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(to.rsplit(":", 1)[1]))
            writer.write(
                b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            await reader.readuntil(b"\r\n\r\n")
            writer.write(bytes([0x82, 0xFF]) + struct.pack(">Q", 10**9) + b"mask" + b"\x00" * 1000)
            rest = await reader.read()
            writer.close()
            await is_let_go(proxy)
        return rest

    rest = finish(check())
    assert struct.pack(">H", 1009) in rest


def test_compression_is_never_agreed_on() -> None:
    async def check() -> None:
        async with (
            openpi_server(counting_policy) as upstream,
            running_proxy(upstream) as (_, to),
            connect(to, compression="deflate", proxy=None) as connection,
        ):
            assert connection.protocol.extensions == []

    finish(check())


def test_a_client_that_leaves_in_the_middle_of_a_reply_takes_its_upstream_connection_along(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def slow(websocket) -> None:
        await websocket.send(packb({}))
        await websocket.recv()
        asked.set()
        await websocket.wait_closed()
        left.set()

    async def check() -> None:
        async with serving(slow) as upstream, running_proxy(upstream) as (proxy, to):
            async with client(to) as (connection, _):
                await connection.send(packb(observation(0.0)))
                await asked.wait()
                connection.transport.abort()
            await left.wait()
            await is_let_go(proxy)
            assert proxy.journal.faults["client_gone"] == 1

    finish(check())
    assert "client_gone" in caplog.text


def test_a_client_that_leaves_during_its_handshake_leaves_nothing_behind() -> None:
    async def check() -> None:
        async with openpi_server(counting_policy) as upstream, running_proxy(upstream) as (proxy, to):
            for request in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET", b"\x16\x03\x01nonsense\r\n\r\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", int(to.rsplit(":", 1)[1]))
                writer.write(request)
                await writer.drain()
                if request.startswith(b"GET /"):
                    assert b"426" in await reader.read()
                writer.close()
            async with client(to) as (connection, _):
                assert (await ask(connection, observation(1.0)))["tag"] == 1.0
            assert not proxy._upstreams

    finish(check())


def test_a_replaced_patch_folder_is_noticed_while_the_loaded_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(proxy_module, "WATCH_SECONDS", 0.02)
    patch = tmp_path / "my.patch"
    patch.mkdir()
    (patch / "patch.json").write_text("{}")

    async def check() -> None:
        async with (
            openpi_server(counting_policy) as upstream,
            running_proxy(upstream, patch=patch) as (proxy, to),
            client(to) as (connection, _),
        ):
            await asyncio.sleep(0.1)
            assert not proxy.journal.faults
            shutil.rmtree(patch)
            while not proxy.journal.patch_changed:
                await asyncio.sleep(0.01)
            patch.mkdir()
            (patch / "patch.json").write_text('{"other": 1}')
            while proxy.journal.faults["patch_changed"] < 2:
                await asyncio.sleep(0.01)
            assert (await ask(connection, observation(1.0)))["tag"] == 1.0
            assert "speedup_patch_patch_changed 1" in proxy.journal.render()

    finish(check())
    assert "still serving the patch that was loaded" in caplog.text


async def refuses(address: str) -> bool:
    """Whether nobody listens any more; a connection that the listener leaves behind is reset."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", int(address.rsplit(":", 1)[1]))
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False
    writer.close()
    return False


def test_shutting_down_answers_what_is_in_flight_and_then_says_goodbye() -> None:
    begun, release = asyncio.Semaphore(0), asyncio.Event()

    async def slow(request: dict) -> dict:
        begun.release()
        await release.wait()
        return counting_policy(request)

    async def busy(to: str, tag: float) -> tuple[float, int]:
        async with client(to) as (connection, _):
            await connection.send(packb(observation(tag)))
            reply = unpackb(await connection.recv())
            assert len(reply["actions"]) == 4
            return reply["tag"], (await closing(connection))[0]

    async def idle(to: str) -> int:
        async with client(to) as (connection, _):
            begun.release()
            return (await closing(connection))[0]

    async def check() -> None:
        async with openpi_server(slow) as upstream, running_proxy(upstream) as (proxy, to):
            clients = asyncio.gather(*(busy(to, float(tag)) for tag in range(8)), idle(to))
            for _ in range(9):
                await begun.acquire()
            proxy.stop()
            async with asyncio.timeout(60):
                while not await refuses(to):
                    await asyncio.sleep(0.01)
            release.set()
            assert await clients == [*((float(tag), 1001) for tag in range(8)), 1001]

    finish(check())


def test_file_descriptors_stay_flat_over_many_connections() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def check() -> None:
        async with openpi_server(counting_policy) as upstream, running_proxy(upstream) as (proxy, to):
            before = descriptors()
            for _ in range(60):
                async with client(to) as (connection, _):
                    await ask(connection, observation(0.0))
            await is_let_go(proxy)
            await settled(lambda: descriptors() <= before + 1)

    finish(check())


def test_a_port_in_use_and_bad_settings_say_what_is_wrong() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = ProxyConfig("ws://127.0.0.1:1", port=taken.getsockname()[1])
        proxy = proxy_module.Proxy(config, ALOHA, lambda: EverySecondRow(ALOHA), ("state",), {})
        with pytest.raises(InputError, match="cannot listen on"):
            finish(proxy.run())
    for wrong in (
        {"upstream": "http://x"},
        {"upstream": "ws://x", "port": 70000},
        {"upstream": "ws://x", "minimum_rows": -1},
        {"upstream": "ws://x", "timeout": 0.0},
        {"upstream": "ws://x", "max_message": 10},
    ):
        with pytest.raises(InputError, match=r"--\w+"):
            ProxyConfig(**wrong)
