"""``sup serve``."""

import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import tyro

from speedup_patch.errors import InputError

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    patch: tyro.conf.Positional[Path],
    *,
    upstream: str,
    port: int = 8001,
    host: str = "127.0.0.1",
    state_key: tuple[str, ...] = (),
    min_rows: int = 0,
    max_rate: float | None = None,
    deadline: float | None = None,
    timeout: float = 120.0,
    idle: float = 10.0,
    max_message: int = 32,
    api_key_file: Path | None = None,
    upstream_key_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    log: Path | None = None,
) -> None:
    """Put a patch between an openpi policy server and its clients, with no change to either.

    Clients connect here instead of to the policy server and get the same replies with shorter chunks. GET /healthz and
    /metrics (Prometheus) answer on the same port. SIGTERM answers what is in flight, then stops. Events go to stderr,
    one line of JSON each.

    Args:
        patch: Folder of the trained patch.
        upstream: Address of the policy server, such as ws://127.0.0.1:8000.
        port: Port to listen on; 0 takes a free one and logs it.
        host: Address to listen on; 0.0.0.0 opens it to the network.
        state_key: Observation keys that hold the state, joined in order; known for aloha, droid and panda_libero.
        min_rows: Pad shortened chunks to this many rows (targets held, motions zero) for clients that need them.
        max_rate: Never run faster than this many original actions per command sent.
        deadline: Seconds a decision may take before the original chunk is passed on instead.
        timeout: Seconds the policy server has for an answer; its first may include compilation.
        idle: Seconds without a request, beyond what the last chunk takes, after which an episode begins; more for
            simulators that are that much slower than real time.
        max_message: Largest message accepted from either side, in MiB.
        api_key_file: File with the key that clients must show; their key then no longer goes to the policy server.
        upstream_key_file: File with the key to show to the policy server.
        tls_cert: Certificate chain, to serve wss:// instead of ws://.
        tls_key: Private key of the certificate.
        log: Folder for a Parquet log of every decision, which sup check reads.
    """
    from functools import partial

    from speedup_patch import __version__
    from speedup_patch.runtime.accelerator import ChunkAccelerator
    from speedup_patch.runtime.decision_log import DecisionLog
    from speedup_patch.runtime.engine import patch_engine
    from speedup_patch.runtime.patch_folder import load_patch

    try:
        from speedup_patch.serve.chunks import choose_state_keys
        from speedup_patch.serve.config import ProxyConfig
        from speedup_patch.serve.proxy import Proxy, run_until_signalled
    except ModuleNotFoundError as error:
        raise InputError(f"serving needs {error.name}: pip install 'speedup-patch[serve]'") from error

    if (tls_cert is None) != (tls_key is None):
        raise InputError("--tls-cert and --tls-key belong together: give both or neither")
    config = ProxyConfig(
        upstream=upstream,
        host=host,
        port=port,
        minimum_rows=min_rows,
        timeout=timeout,
        idle=idle,
        max_message=max_message * 2**20,
        api_key=_read_key(api_key_file, "--api-key-file"),
        upstream_api_key=_read_key(upstream_key_file, "--upstream-key-file"),
        tls=(tls_cert, tls_key) if tls_cert and tls_key else None,
    )
    _log_to_stderr()
    loaded = load_patch(patch)
    keys = choose_state_keys(loaded.robot.name, state_key)
    decisions = DecisionLog(log) if log is not None else None
    description = {
        "version": __version__,
        "patch": patch.resolve().name,
        "robot": loaded.robot.name,
        "chunk_length": loaded.chunk_length,
        "options": list(loaded.candidates.labels),
        "max_rate": max_rate,
        "state_keys": list(keys),
        "min_rows": min_rows,
        "padding": "targets and grippers held, motions zero" if min_rows else None,
    }
    make_accelerator = partial(
        ChunkAccelerator, patch_engine(loaded), max_rate=max_rate, deadline=deadline, log=decisions
    )
    proxy = Proxy(config, loaded.robot, make_accelerator, keys, description, patch)
    if host not in LOOPBACK and (config.api_key is None or config.tls is None):
        proxy.journal.note("open_to_the_network", host=host, tls=config.tls is not None, key=config.api_key is not None)
    try:
        _run(run_until_signalled(proxy))
    finally:
        if decisions is not None:
            decisions.flush()


def _read_key(file: Path | None, option: str) -> str | None:
    if file is None:
        return None
    try:
        key = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{option} {file} cannot be read: {error}") from error
    if not key or not key.isprintable() or not key.isascii():
        raise InputError(f"{option} {file} must hold one line of plain characters, the key")
    return key


def _log_to_stderr() -> None:
    from speedup_patch.serve.journal import JsonLines

    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in (("speedup_patch", logging.INFO), ("websockets", logging.ERROR)):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(level)


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Runs the proxy on uvloop where it is installed: what it adds to a request is mostly the event loop's time."""
    import asyncio

    try:
        from uvloop import run
    except ImportError:  # not for every platform
        run = asyncio.run
    run(main)
