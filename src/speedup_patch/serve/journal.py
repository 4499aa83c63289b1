"""What happened while serving: one JSON line in the log for every event, and Prometheus text for ``/metrics``."""

import json
import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

LOGGER = logging.getLogger("speedup_patch.serve")

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
RATES = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)


@dataclass
class Histogram:
    """How often values fell at or below each bound."""

    bounds: tuple[float, ...]
    total: float = 0.0
    counts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> Iterator[str]:
        """Prometheus text: cumulative buckets, sum and count."""
        below = 0
        for bound, count in zip((*self.bounds, None), self.counts, strict=True):
            below += count
            yield f'{name}_bucket{{le="{"+Inf" if bound is None else bound}"}} {below}'
        yield f"{name}_sum {self.total}"
        yield f"{name}_count {below}"


class Journal:
    """Counts and logs what the proxy does."""

    def __init__(self) -> None:
        self.decisions = 0
        self.fallbacks: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.rows: dict[str, float] = dict.fromkeys(("original", "done", "sent", "padded"), 0.0)
        """Rows the policy gave (original), how many of them the rows of the shortened chunks (sent) do (done), and rows
        added to these (padded)."""
        self.rates = Histogram(RATES)
        self.decision_seconds = Histogram(SECONDS)
        self.upstream_seconds = Histogram(SECONDS)
        self.episodes = 0
        self.connections_total = 0
        self.connections = 0
        self.patch_changed = False

    def decided(self, rate: float, seconds: float, reason: str | None) -> None:
        """Counts one decision, and why it fell back to the original chunk if it did; the accelerator logs that."""
        self.decisions += 1
        self.rates.observe(rate)
        self.decision_seconds.observe(seconds)
        if reason is not None:
            self.fallbacks[reason] += 1

    def fault(self, event: str, **fields: object) -> None:
        """Counts something that went wrong and logs it as a warning."""
        self.faults[event] += 1
        self._log(logging.WARNING, event, fields)

    def note(self, event: str, **fields: object) -> None:
        """Logs something that is part of normal work."""
        self._log(logging.INFO, event, fields)

    def render(self) -> str:
        """All figures as Prometheus text."""
        return "".join(f"{line}\n" for line in self._metrics())

    def _metrics(self) -> Iterator[str]:
        yield from _single("decisions_total", "counter", "Chunks decided on.", self.decisions)
        yield from _labelled("fallbacks_total", "Chunks returned unchanged, by reason.", "reason", self.fallbacks)
        yield from _labelled("faults_total", "Things that went wrong, by kind.", "event", self.faults)
        yield from _labelled("rows_total", "Actions by what became of them.", "kind", self.rows)
        yield from _histogram("rate", "Original actions done per command sent.", self.rates)
        yield from _histogram("decision_seconds", "Time to decide on and shorten a chunk.", self.decision_seconds)
        yield from _histogram("upstream_seconds", "Time the policy server took to answer.", self.upstream_seconds)
        yield from _single("episodes_total", "counter", "Episodes begun so far.", self.episodes)
        yield from _single("connections", "gauge", "Clients connected now.", self.connections)
        yield from _single("connections_total", "counter", "Clients connected so far.", self.connections_total)
        yield from _single(
            "patch_changed",
            "gauge",
            "1 when the patch folder has changed since it was loaded.",
            self.patch_changed,
        )

    def _log(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        if LOGGER.isEnabledFor(level):
            LOGGER.log(level, "%s %s", event, _to_json(fields), extra={"event": event, "fields": fields})


class JsonLines(logging.Formatter):
    """Formats every record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        event = getattr(record, "event", None)
        fields = record.__dict__["fields"] if event else {"text": super().format(record)}
        heading = {"time": self.formatTime(record), "level": record.levelname.lower(), "event": event or "log"}
        return _to_json({**heading, **fields})


def _to_json(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, default=str)


def _heading(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP speedup_patch_{name} {text}"
    yield f"# TYPE speedup_patch_{name} {kind}"


def _single(name: str, kind: str, text: str, value: int) -> Iterator[str]:
    yield from _heading(name, kind, text)
    yield f"speedup_patch_{name} {int(value)}"


def _labelled(name: str, text: str, label: str, counts: Mapping[str, int] | Mapping[str, float]) -> Iterator[str]:
    yield from _heading(name, "counter", text)
    for key, count in sorted(counts.items()):
        escaped = key.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'speedup_patch_{name}{{{label}="{escaped}"}} {count:.15g}'


def _histogram(name: str, text: str, histogram: Histogram) -> Iterator[str]:
    yield from _heading(name, "histogram", text)
    yield from histogram.lines(f"speedup_patch_{name}")
