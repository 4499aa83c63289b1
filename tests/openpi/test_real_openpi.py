"""The published openpi-client, in its own environment, against ``sup serve``."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serve.openpi_stand_in import EverySecondRow, finish, openpi_server, running_proxy
from serve.serve_process import demonstrated_requests, replaying_policy, serve_process
from speedup_patch.robots import find_robot
from speedup_patch.runtime.accelerator import ChunkAccelerator
from speedup_patch.runtime.engine import load_engine

PYTHON = Path(os.environ.get("OPENPI_PYTHON", ".venv-openpi/bin/python")).absolute()
SCRIPT = Path(__file__).with_name("client_script.py")

pytestmark = [
    pytest.mark.openpi,
    pytest.mark.skipif(not PYTHON.exists(), reason="openpi's client is not installed: make openpi-env"),
]


class OpenpiClient:
    """openpi's client in its own process."""

    def __init__(self, folder: Path) -> None:
        requests = demonstrated_requests(6)
        self.observations = folder / "observations.npz"
        np.savez(
            self.observations,
            states=np.stack([request["state"] for request in requests]),
            steps=np.array([request["step"] for request in requests]),
        )

    async def start(self, what: str, address: str, key: str = "", *numbers: int) -> asyncio.subprocess.Process:
        port = address.rsplit(":", 1)[1]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return await asyncio.create_subprocess_exec(
            *(str(PYTHON), str(SCRIPT), what, port, str(self.observations), key, *map(str, numbers)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
            limit=2**24,
        )

    async def run(self, what: str, address: str, key: str = "", *numbers: int) -> dict[str, Any]:
        """What the client made of it."""
        return await self.finish(await self.start(what, address, key, *numbers))

    async def finish(self, process: asyncio.subprocess.Process, line: bytes = b"") -> dict[str, Any]:
        try:
            output, _ = await process.communicate(line)
        finally:
            if process.returncode is None:
                process.kill()
        return json.loads(output)


@pytest.fixture
def openpi(tmp_path: Path) -> OpenpiClient:
    return OpenpiClient(tmp_path)


def test_infer(openpi: OpenpiClient, patch_folder: Path) -> None:
    async def check() -> tuple[dict[str, Any], dict[str, Any]]:
        async with openpi_server(replaying_policy) as upstream, serve_process(patch_folder, upstream) as proxy:
            return await openpi.run("infer", upstream), await openpi.run("infer", proxy.address)

    direct, proxied = finish(check(), 120)
    assert proxied["steps"] == direct["steps"]
    assert proxied["dtypes"] == direct["dtypes"] == ["float32"]
    assert proxied["timing"] == direct["timing"]
    assert {key: proxied["metadata"][key] for key in direct["metadata"]} == direct["metadata"]
    assert proxied["metadata"]["speedup_patch"]["robot"] == "aloha"
    accelerator = ChunkAccelerator(load_engine(patch_folder))
    rates: list[float] = []
    for request, chunk, got in zip(demonstrated_requests(6), direct["actions"], proxied["actions"], strict=True):
        decision = accelerator.shorten(np.array(chunk), request["state"].astype(np.float64))
        np.testing.assert_array_equal(np.float32(got), decision.actions.astype(np.float32))
        rates.append(decision.rate)
    assert max(rates) > 1


def test_action_chunk_broker(openpi: OpenpiClient, patch_folder: Path) -> None:
    """A broker set to the policy's 24 rows needs them padded; set to the shortened length it needs nothing."""
    observation = demonstrated_requests(6)[2]
    chunk = replaying_policy(observation)["actions"]
    decision = ChunkAccelerator(load_engine(patch_folder)).shorten(
        chunk.astype(np.float64), observation["state"].astype(np.float64)
    )
    expected = decision.actions.astype(np.float32)
    assert len(expected) < 24

    async def check() -> None:
        async with (
            openpi_server(replaying_policy) as upstream,
            serve_process(patch_folder, upstream) as plain,
            serve_process(patch_folder, upstream, "--min-rows", "24") as padded,
        ):
            short = await openpi.run("broker", plain.address, "", len(expected))
            np.testing.assert_array_equal(np.float32(short["actions"]), expected)
            assert (await openpi.run("broker", plain.address, "", 24))["error"] == "IndexError"
            long = np.float32((await openpi.run("broker", padded.address, "", 24))["actions"])
            np.testing.assert_array_equal(long[: len(expected)], expected)
            np.testing.assert_array_equal(long[len(expected) :], np.tile(expected[-1], (24 - len(expected), 1)))

    finish(check(), 120)


def test_the_error_text_reaches_the_client(openpi: OpenpiClient, patch_folder: Path) -> None:
    def broken(request: dict[str, Any]) -> dict[str, Any]:
        raise KeyError("observation/exterior_image_1_left")

    async def check() -> tuple[dict[str, Any], dict[str, Any]]:
        async with openpi_server(broken) as upstream, serve_process(patch_folder, upstream) as proxy:
            return await openpi.run("infer", upstream), await openpi.run("infer", proxy.address)

    direct, proxied = finish(check(), 120)
    assert proxied == direct
    assert proxied["error"] == "RuntimeError"
    assert "KeyError: 'observation/exterior_image_1_left'" in proxied["text"]


def test_reconnects_after_the_policy_server_restarts(openpi: OpenpiClient, patch_folder: Path) -> None:
    async def check() -> dict[str, Any]:
        server = openpi_server(replaying_policy)
        upstream = await server.__aenter__()
        async with serve_process(patch_folder, upstream) as proxy:
            process = await openpi.start("reconnect", proxy.address)
            assert process.stdout is not None
            assert await process.stdout.readline() == b"ready\n"
            await server.__aexit__(None, None, None)
            async with openpi_server(replaying_policy, port=int(upstream.rsplit(":", 1)[1])):
                return await openpi.finish(process, b"go on\n")

    result = finish(check(), 120)
    assert result["first"] == result["again"] == 0
    assert "1001" in result["broken"]


def test_a_wrong_api_key_is_refused_as_the_server_itself_refuses_it(openpi: OpenpiClient, patch_folder: Path) -> None:
    async def check() -> None:
        async with (
            openpi_server(replaying_policy, api_key="right") as upstream,
            serve_process(patch_folder, upstream) as proxy,
        ):
            assert await openpi.run("infer", proxy.address, "wrong") == await openpi.run("infer", upstream, "wrong")
            refused = await openpi.run("infer", proxy.address, "")
            assert refused["error"] == "InvalidStatus"
            assert "403" in refused["text"]
            assert len((await openpi.run("infer", proxy.address, "right"))["steps"]) == 6

    finish(check(), 120)


def test_sixteen_clients_with_a_thousand_requests_each(openpi: OpenpiClient) -> None:
    """None lost, none mixed, none changed beyond the shortening."""

    def tagged(request: dict[str, Any]) -> dict[str, Any]:
        rows = request["tag"] + np.array([[0.0], [0.25], [0.5], [0.75]])
        return {"actions": rows * np.ones(14), "tag": request["tag"]}

    robot = find_robot("aloha")

    async def check() -> None:
        async with (
            openpi_server(tagged) as upstream,
            running_proxy(upstream, make_accelerator=lambda: EverySecondRow(robot)) as (proxy, address),
        ):
            result = await openpi.run("load", address, "", 16, 1000)
            assert result == {"answered": 16_000, "wrong": []}
            assert proxy.journal.decisions == 16_000
            assert not proxy.journal.faults

    finish(check(), 600)
