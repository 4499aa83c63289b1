"""How a proxy is set up."""

from dataclasses import dataclass
from pathlib import Path

from websockets.exceptions import InvalidURI
from websockets.uri import parse_uri

from speedup_patch.errors import InputError


@dataclass(frozen=True)
class ProxyConfig:
    """Where the proxy listens, whom it asks, and within which bounds."""

    upstream: str
    host: str = "127.0.0.1"
    port: int = 8001
    minimum_rows: int = 0
    timeout: float = 120.0
    """Seconds the policy server has for an answer; its first one may include compilation."""
    idle: float = 10.0
    """Seconds without a request, beyond what its chunk takes, after which a client's next request begins an episode."""
    max_message: int = 32 * 2**20
    """Bytes of the largest message accepted from either side."""
    api_key: str | None = None
    """Key that clients must show; without it their Authorization header goes to the policy server as it is."""
    upstream_api_key: str | None = None
    tls: tuple[Path, Path] | None = None
    """Certificate and key file."""

    def __post_init__(self) -> None:
        try:
            parse_uri(self.upstream)
        except InvalidURI as error:
            raise InputError(f"--upstream {self.upstream!r} is not an address such as ws://127.0.0.1:8000") from error
        if not 0 <= self.port <= 65535:
            raise InputError(f"--port must lie between 0 and 65535, not {self.port}")
        if self.minimum_rows < 0:
            raise InputError(f"--min-rows must be 0 or more, not {self.minimum_rows}")
        if not self.timeout > 0:
            raise InputError(f"--timeout must be more than 0 seconds, not {self.timeout}")
        if not self.idle > 0:
            raise InputError(f"--idle must be more than 0 seconds, not {self.idle}")
        if self.max_message < 1024:
            raise InputError(f"--max-message must be at least 1024 bytes, not {self.max_message}")
