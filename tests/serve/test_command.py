"""``sup serve`` as a process with a real patch and a real policy behind it."""

import asyncio
import os
import ssl
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from serve.openpi_stand_in import (
    ask,
    client,
    finish,
    observation,
    openpi_server,
    packb,
    running_proxy,
    settled,
    unpackb,
)
from serve.serve_process import demonstrated_requests, replaying_policy, serve_process
from speedup_patch.commands.serve import serve
from speedup_patch.errors import InputError
from speedup_patch.policies import load_policy
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.decision_log import read_decisions
from speedup_patch.runtime.engine import load_engine


def expected_actions(patch: Path, requests: list[dict[str, Any]], policy: Any) -> list[np.ndarray]:
    """What the runtime makes of the same requests without any wire in between."""
    accelerator = ChunkAccelerator(load_engine(patch))
    chunks = [policy(request)["actions"] for request in requests]
    return [
        accelerator.shorten(chunk.astype(np.float64), request["state"].astype(np.float64)).actions.astype(chunk.dtype)
        for chunk, request in zip(chunks, requests, strict=True)
    ]


def test_serves_what_the_runtime_decides_and_logs_every_decision(patch_folder: Path, tmp_path: Path) -> None:
    requests = demonstrated_requests(12)

    async def check() -> list[np.ndarray]:
        async with (
            openpi_server(replaying_policy) as upstream,
            serve_process(patch_folder, upstream, "--log", str(tmp_path)) as proxy,
        ):
            async with client(proxy.address) as (connection, metadata):
                ours = metadata["speedup_patch"]
                replies = [await ask(connection, request) for request in requests]
            assert await proxy.stop() == 0
            assert proxy.count("text") == 0
        assert (ours["robot"], ours["chunk_length"], ours["options"]) == ("aloha", 24, ["2x", "3x"])
        assert ours["state_keys"] == ["state"]
        assert [reply["step"] for reply in replies] == [request["step"] for request in requests]
        assert {"listening", "client_connected", "client_disconnected", "stopped"} <= {e["event"] for e in proxy.events}
        return [reply["actions"] for reply in replies]

    actions = finish(check())
    for got, expected in zip(actions, expected_actions(patch_folder, requests, replaying_policy), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert min(len(chunk) for chunk in actions) < 24
    decisions = read_decisions(tmp_path)
    assert [decision.executed for decision in decisions] == [len(chunk) for chunk in actions]


def test_the_bundled_policy_is_never_made_worse_by_a_patch_that_does_not_know_it(patch_folder: Path) -> None:
    """The patch saw other demonstrations: its guard gives the policy's own chunks back, bit for bit."""
    bundled = load_policy("bundled:aloha/insertion")
    policy = lambda request: {"actions": bundled.infer(request).astype(np.float32)}  # noqa: E731
    rng = np.random.default_rng(0)
    requests = [{name: rng.normal(size=14).astype(np.float32) for name in ("state", "environment_state")} for _ in "12"]
    engine = load_engine(patch_folder)

    async def check() -> None:
        async with (
            openpi_server(policy) as upstream,
            running_proxy(upstream, make_accelerator=lambda: ChunkAccelerator(engine)) as (proxy, address),
            client(address) as (connection, _),
        ):
            for request in requests:
                np.testing.assert_array_equal((await ask(connection, request))["actions"], policy(request)["actions"])
            assert proxy.journal.fallbacks["unfamiliar state"] == len(requests)

    finish(check())


def test_a_signal_answers_what_is_in_flight_first(patch_folder: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def slow(request: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        await release.wait()
        return replaying_policy(request)

    async def check() -> None:
        async with openpi_server(slow) as upstream, serve_process(patch_folder, upstream) as proxy:
            async with client(proxy.address) as (connection, _):
                await connection.send(packb(demonstrated_requests(1)[0]))
                await begun.wait()
                stopping = asyncio.create_task(proxy.stop())
                while not proxy.count("shutting_down"):
                    await asyncio.sleep(0.01)
                release.set()
                assert unpackb(await connection.recv())["step"] == 0
                with pytest.raises(ConnectionClosed) as closed:
                    await connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
            assert await stopping == 0

    finish(check())


def test_memory_and_file_descriptors_stay_flat(patch_folder: Path) -> None:
    """A short version of benchmarks/proxy_endurance.py."""
    requests = demonstrated_requests(20)

    async def round_of_requests(address: str) -> None:
        for _ in range(4):
            async with client(address) as (connection, _):
                for request in requests:
                    await ask(connection, request)

    async def check() -> list[int]:
        async with openpi_server(replaying_policy) as upstream, serve_process(patch_folder, upstream) as proxy:
            process = Path(f"/proc/{proxy.process.pid}")
            descriptors = lambda: len(list((process / "fd").iterdir()))  # noqa: E731
            memory: list[int] = []
            for number in range(1, 5):
                await round_of_requests(proxy.address)
                await settled(lambda number=number: proxy.count("client_disconnected") == 4 * number)
                memory.append(int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
                if number == 2:  # the first round opens what stays open
                    flat = descriptors()
            await settled(lambda: descriptors() <= flat)
        return memory

    memory = finish(check())
    assert memory[-1] - memory[1] < 4 * 2**20


def test_serves_over_tls(patch_folder: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        (
            "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 "
            f"-keyout {key} -out {certificate}"
        ).split(),
        check=True,
        capture_output=True,
    )

    async def check() -> int:
        async with (
            openpi_server(replaying_policy) as upstream,
            running_proxy(upstream, tls=(certificate, key)) as (_, address),
            client(address.replace("ws:", "wss:"), ssl=ssl.create_default_context(cafile=certificate)) as (open_, _),
        ):
            return (await ask(open_, {**observation(0.0), "step": 5}))["step"]

    assert finish(check()) == 5


def test_wrong_options_say_what_would_be_right(patch_folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "key"
    empty.write_text("\n")
    for options, text in (
        ({"upstream": "127.0.0.1:8000"}, "ws://"),
        ({"upstream": "ws://x", "tls_cert": tmp_path}, "--tls-key"),
        ({"upstream": "ws://x", "api_key_file": empty}, "--api-key-file"),
        ({"upstream": "ws://x", "api_key_file": tmp_path / "none"}, "cannot be read"),
        ({"upstream": "ws://x", "max_rate": 0.5}, "max_rate"),
        ({"upstream": "ws://x", "min_rows": -1}, "--min-rows"),
        ({"upstream": "ws://x", "tls_cert": empty, "tls_key": empty}, "cannot be used"),
    ):
        with pytest.raises(InputError, match=text):
            serve(patch_folder, **options)
    with pytest.raises(InputError, match="not a patch folder"):
        serve(tmp_path, upstream="ws://x")
