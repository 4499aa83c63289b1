"""The proxy between a client and a policy server that both speak openpi's protocol."""

import asyncio
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from serve.openpi_stand_in import (
    METADATA,
    ROWS,
    EverySecondRow,
    ask,
    client,
    counting_policy,
    finish,
    http_get,
    observation,
    openpi_server,
    packb,
    running_proxy,
    serving,
    unpackb,
)
from speedup_patch.policies import load_policy
from speedup_patch.robots import find_robot
from stand_ins import DELTA_ROBOT

ALOHA = find_robot("aloha")


def test_only_the_actions_change_and_the_metadata_gains_our_fields() -> None:
    async def check() -> None:
        extra = {"note": "kept", "policy_timing": {"infer_ms": 3.5}, "logits": np.arange(6.0).reshape(2, 3)}
        policy = lambda request: {**counting_policy(request), **extra}  # noqa: E731
        async with (
            openpi_server(policy) as upstream,
            running_proxy(upstream) as (_, address),
            client(upstream) as (direct, _),
            client(address) as (proxied, metadata),
        ):
            assert metadata == {**METADATA, "speedup_patch": {"version": "test", "robot": "aloha"}}
            plain = await ask(direct, observation(7.0))
            faster = await ask(proxied, observation(7.0))
        assert list(faster) == list(plain)
        assert faster["actions"].dtype == np.float32
        np.testing.assert_array_equal(faster["actions"], plain["actions"][1::2])
        for key in plain.keys() - {"actions"}:
            np.testing.assert_equal(faster[key], plain[key])

    finish(check())


def test_observations_and_unshortened_replies_pass_byte_for_byte() -> None:
    """Even bytes that our own packer would never write: here floats packed as 32 bits."""
    request = packb(observation(1.0, odd=1.5), use_single_float=True)
    reply = packb({"actions": np.zeros((ROWS, 14)), "odd": [None, {"deep": b"\x00"}]}, use_single_float=True)
    got: list[bytes | str] = []

    async def upstream_side(websocket) -> None:
        await websocket.send(packb({}))
        got.append(await websocket.recv())
        await websocket.send(reply)
        await websocket.wait_closed()

    async def check() -> bytes | str:
        unchanged = lambda: EverySecondRow(ALOHA, reason="unfamiliar state")  # noqa: E731
        async with (
            serving(upstream_side) as upstream,
            running_proxy(upstream, make_accelerator=unchanged) as (_, to),
            client(to) as (connection, _),
        ):
            await connection.send(request)
            return await connection.recv()

    assert finish(check()) == reply
    assert got == [request]


def test_many_clients_at_once_each_get_their_own_answers_in_order() -> None:
    async def one(address: str, number: int, requests: int) -> int:
        async with client(address) as (connection, _):
            for index in range(requests):
                tag = number * 1000.0 + index
                reply = await ask(connection, observation(tag))
                assert reply["tag"] == tag
                expected = counting_policy({"tag": tag})["actions"][1::2]
                np.testing.assert_array_equal(reply["actions"], expected)
        return requests

    async def check() -> None:
        async with openpi_server(counting_policy) as upstream, running_proxy(upstream) as (proxy, address):
            answered = await asyncio.gather(*(one(address, number, 60) for number in range(16)))
            assert sum(answered) == 16 * 60 == proxy.journal.decisions
            assert proxy.journal.connections_total == 16
            assert not proxy.journal.faults

    finish(check())


def test_pipelined_requests_are_answered_in_order() -> None:
    async def check() -> list[float]:
        async with (
            openpi_server(counting_policy) as upstream,
            running_proxy(upstream) as (_, address),
            client(address) as (connection, _),
        ):
            for tag in range(20):
                await connection.send(packb(observation(float(tag))))
            return [unpackb(await connection.recv())["tag"] for _ in range(20)]

    assert finish(check()) == list(range(20))


def test_the_error_text_and_close_code_of_the_policy_server_reach_the_client() -> None:
    def broken(request: dict) -> dict:
        raise KeyError("base_0_rgb")

    async def check() -> ConnectionClosed:
        async with openpi_server(broken) as upstream, running_proxy(upstream) as (proxy, address):
            async with client(address) as (connection, _):
                with pytest.raises(RuntimeError, match=r"(?s)Traceback.*KeyError: 'base_0_rgb'"):
                    await ask(connection, observation(0.0))
                with pytest.raises(ConnectionClosed) as closed:
                    await connection.recv()
            assert proxy.journal.faults["upstream_error"] == 1
        return closed.value

    closed = finish(check())
    assert closed.rcvd is not None
    assert closed.rcvd.code == 1011
    assert closed.rcvd.reason == "Internal server error. Traceback included in previous frame."


@pytest.mark.parametrize(("code", "reason"), [(1000, "bye"), (1001, "restart"), (1012, ""), (4321, "own")])
def test_close_codes_pass_in_both_directions(code: int, reason: str) -> None:
    seen: list[tuple[int, str]] = []

    async def closes_first(websocket) -> None:
        await websocket.send(packb({}))
        await websocket.recv()
        await websocket.close(code, reason)

    async def is_closed(websocket) -> None:
        await websocket.send(packb({}))
        await websocket.wait_closed()
        seen.append((websocket.close_code, websocket.close_reason))

    async def check() -> None:
        async with (
            serving(closes_first) as upstream,
            running_proxy(upstream) as (_, address),
            client(address) as (connection, _),
        ):
            await connection.send(packb(observation(0.0)))
            with pytest.raises(ConnectionClosed):
                await connection.recv()
            assert (connection.close_code, connection.close_reason) == (code, reason)
        async with (
            serving(is_closed) as upstream,
            running_proxy(upstream) as (_, address),
            client(address) as (connection, _),
        ):
            await connection.close(code, reason)

    finish(check())
    assert seen == [(code, reason)]


def test_the_api_key_goes_to_the_policy_server_and_its_refusal_comes_back() -> None:
    async def check() -> None:
        async with openpi_server(counting_policy, api_key="right") as upstream, running_proxy(upstream) as (proxy, to):
            async with client(to, additional_headers={"Authorization": "Api-Key right"}) as (connection, _):
                assert (await ask(connection, observation(3.0)))["tag"] == 3.0
            with pytest.raises(InvalidStatus) as refused:
                async with client(to, additional_headers={"Authorization": "Api-Key wrong"}):
                    pass
            assert refused.value.response.status_code == 403
            assert b"wants another key" in (refused.value.response.body or b"")
            assert proxy.journal.faults["upstream_refused"] == 1

    finish(check())


def test_an_own_api_key_is_checked_here_and_never_sent_on() -> None:
    async def check() -> None:
        async with openpi_server(counting_policy, api_key="theirs") as upstream:
            async with running_proxy(upstream, api_key="ours", upstream_api_key="theirs") as (proxy, address):
                async with client(address, additional_headers={"Authorization": "Api-Key ours"}) as (connection, _):
                    assert (await ask(connection, observation(3.0)))["tag"] == 3.0
                for headers in ({"Authorization": "Api-Key theirs"}, {}):
                    with pytest.raises(InvalidStatus) as refused:
                        async with client(address, additional_headers=headers):
                            pass
                    assert refused.value.response.status_code == 401
                assert "401" in await http_get(address, "/metrics")
                assert "OK" in await http_get(address, "/healthz")
                assert proxy.journal.faults["wrong_api_key"] == 3
            async with running_proxy(upstream, api_key="theirs") as (_, address):
                with pytest.raises(InvalidStatus) as refused:
                    async with client(address, additional_headers={"Authorization": "Api-Key theirs"}):
                        pass
                assert refused.value.response.status_code == 403

    finish(check())


def test_health_and_metrics() -> None:
    async def check() -> None:
        async with openpi_server(counting_policy) as upstream, running_proxy(upstream) as (_, address):
            assert (await http_get(address, "/healthz")).endswith("\r\n\r\nOK\n")
            async with client(address) as (connection, _):
                for _ in range(3):
                    await ask(connection, observation(0.0))
                text = await http_get(address, "/metrics")
        assert "text/plain; version=0.0.4" in text
        lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("speedup_patch_"))
        assert lines["speedup_patch_decisions_total"] == "3"
        assert lines['speedup_patch_rate_bucket{le="1.75"}'] == "0"
        assert lines['speedup_patch_rate_bucket{le="2.0"}'] == "3"
        assert lines["speedup_patch_upstream_seconds_count"] == "3"
        assert lines["speedup_patch_decision_seconds_count"] == "3"
        assert lines["speedup_patch_connections"] == "1"
        assert lines['speedup_patch_rows_total{kind="original"}'] == str(3 * ROWS)
        assert lines['speedup_patch_rows_total{kind="done"}'] == str(3 * ROWS)
        assert lines['speedup_patch_rows_total{kind="sent"}'] == str(3 * ROWS // 2)

    finish(check())


def test_fallbacks_are_counted_by_reason() -> None:
    async def check() -> str:
        unchanged = lambda: EverySecondRow(ALOHA, reason='unfamiliar "state"')  # noqa: E731
        async with (
            openpi_server(counting_policy) as upstream,
            running_proxy(upstream, make_accelerator=unchanged) as (_, address),
            client(address) as (connection, _),
        ):
            assert len((await ask(connection, observation(0.0)))["actions"]) == ROWS
            return await http_get(address, "/metrics")

    assert 'speedup_patch_fallbacks_total{reason="unfamiliar \\"state\\""} 1' in finish(check())


def test_short_chunks_are_padded_for_clients_with_a_fixed_horizon() -> None:
    chunk = np.arange(1.0, ROWS + 1)[:, None] * np.ones(7)

    async def check() -> None:
        async with openpi_server(lambda request: {"actions": chunk}) as upstream:
            for minimum, rows in ((0, 4), (3, 4), (6, 6), (ROWS, ROWS), (50, ROWS)):
                proxied = running_proxy(
                    upstream,
                    robot=DELTA_ROBOT,
                    make_accelerator=lambda: EverySecondRow(DELTA_ROBOT),
                    minimum_rows=minimum,
                )
                async with proxied as (proxy, address), client(address) as (connection, _):
                    request = {"state": np.zeros(7)}
                    actions = (await ask(connection, request))["actions"]
                assert actions.shape == (rows, 7)
                np.testing.assert_array_equal(actions[:4], chunk[1::2])
                np.testing.assert_array_equal(actions[4:, :6], 0.0)
                np.testing.assert_array_equal(actions[4:, 6], chunk[-1, 6])
                assert proxy.journal.rows["padded"] == rows - 4

    finish(check())


def test_the_state_is_joined_from_several_keys() -> None:
    states: list[np.ndarray] = []

    class Recording(EverySecondRow):
        def shorten(self, chunk, state, previous_state=None):
            states.append(state)
            return super().shorten(chunk, state)

    async def check() -> None:
        keys = ("observation/joint_position", "observation/gripper_position")
        request = {keys[0]: np.arange(13, dtype=np.float32), keys[1]: np.float32(0.5), "tag": 0.0}
        async with openpi_server(counting_policy) as upstream:
            proxied = running_proxy(upstream, state_keys=keys, make_accelerator=lambda: Recording(ALOHA))
            async with proxied as (_, address), client(address) as (connection, _):
                await ask(connection, request)
                await ask(connection, {**request, keys[1]: [0.25]})

    finish(check())
    np.testing.assert_array_equal(states, [[*range(13), 0.5], [*range(13), 0.25]])


def test_every_client_has_its_own_accelerator() -> None:
    made: list[EverySecondRow] = []

    def make() -> EverySecondRow:
        made.append(EverySecondRow(ALOHA))
        return made[-1]

    async def check() -> int:
        async with (
            openpi_server(counting_policy) as upstream,
            running_proxy(upstream, make_accelerator=make) as (_, address),
        ):
            before = len(made)
            for _ in range(3):
                async with client(address) as (connection, _):
                    await ask(connection, observation(0.0))
                    await ask(connection, observation(1.0))
            return len(made) - before

    assert finish(check()) == 3


def test_the_bundled_policy_behind_the_proxy_answers_as_it_does_directly() -> None:
    bundled = load_policy("bundled:aloha/insertion")
    rng = np.random.default_rng(0)

    async def check() -> None:
        policy = lambda request: {"actions": bundled.infer(request).astype(np.float32)}  # noqa: E731
        async with (
            openpi_server(policy) as upstream,
            running_proxy(upstream) as (_, address),
            client(address) as (connection, _),
        ):
            for _ in range(5):
                request = {
                    "state": rng.normal(size=14).astype(np.float32),
                    "environment_state": rng.normal(size=14).astype(np.float32),
                }
                expected = bundled.infer(request).astype(np.float32)[1::2]
                np.testing.assert_array_equal((await ask(connection, request))["actions"], expected)

    finish(check())


class Watched(EverySecondRow):
    """The stand-in with a count of its resets; a state whose first number exceeds 1 is a jump to it."""

    def __init__(self) -> None:
        super().__init__(ALOHA)
        self.resets = 0

    def jumped(self, state: np.ndarray) -> bool:
        return bool(state[0] > 1.0)

    def reset(self) -> None:
        self.resets += 1


@pytest.mark.parametrize(("idle", "jump", "resets"), [(1000.0, 0.0, 0), (0.01, 0.0, 2), (1000.0, 2.0, 2)])
def test_a_kept_connection_begins_an_episode_after_a_long_rest_and_where_no_motion_led(
    idle: float, jump: float, resets: int
) -> None:
    accelerator = Watched()

    async def check() -> str:
        async with (
            openpi_server(counting_policy) as upstream,
            running_proxy(upstream, make_accelerator=lambda: accelerator, idle=idle) as (_, address),
            client(address) as (connection, _),
        ):
            for _ in range(3):
                await ask(connection, {**observation(0.0), "state": np.full(14, jump)})
                await asyncio.sleep(ROWS / ALOHA.control_hz + 0.05)
            return await http_get(address, "/metrics")

    assert f"speedup_patch_episodes_total {1 + resets}" in finish(check())
    assert accelerator.resets == resets


class Mistaken(EverySecondRow):
    """The stand-in with a slip in its code."""

    def shorten(self, chunk: np.ndarray, state: np.ndarray, previous_state: np.ndarray | None = None) -> Any:
        return len(None)  # type: ignore[arg-type]


def test_a_mistake_in_the_patch_passes_the_policys_own_replies_on_and_is_a_fault() -> None:
    async def check() -> str:
        async with (
            openpi_server(counting_policy) as upstream,
            running_proxy(upstream, make_accelerator=lambda: Mistaken(ALOHA)) as (_, address),
            client(upstream) as (direct, _),
            client(address) as (proxied, _),
        ):
            for _ in range(3):
                plain, answer = await ask(direct, observation(7.0)), await ask(proxied, observation(7.0))
                np.testing.assert_array_equal(answer["actions"], plain["actions"])
            return await http_get(address, "/metrics")

    text = finish(check())
    assert 'speedup_patch_faults_total{event="patch_broken"} 1' in text  # it is not asked again
    assert "speedup_patch_decisions_total 0" in text
