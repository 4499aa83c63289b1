"""SmolVLA, pi0 and pi0.5, small and untrained, inside a patched policy (run with ``make test-lerobot``)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("lerobot.datasets", reason="needs the LeRobot environment")
from vision_operators import declare_missing_operators  # noqa: E402

declare_missing_operators()
from lerobot.policies.rtc.configuration_rtc import RTCConfig  # noqa: E402
from lerobot.utils.constants import OBS_STATE  # noqa: E402

from small_lerobot import AROUND_START, CAMERA, Loaded, fixed_engine  # noqa: E402
from small_vla import SIDE, small_pi, small_smolvla  # noqa: E402
from speedup_patch.errors import InputError  # noqa: E402
from speedup_patch.lerobot.modeling_speedup_patch import speed_up  # noqa: E402
from speedup_patch.lerobot.processor_speedup_patch import make_speedup_patch_pre_post_processors  # noqa: E402

pytestmark = pytest.mark.lerobot

Make = Callable[..., Loaded]


@pytest.fixture(params=["smolvla", "pi0", "pi05"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Builds one of the policies; they predict 50 actions and execute 24."""
    if request.param == "smolvla":
        return lambda **options: small_smolvla(tmp_path, **options)
    return lambda **options: small_pi(request.param, monkeypatch, **options)


def test_chunks_of_different_length_come_out_one_action_at_a_time(make: Make) -> None:
    policy = speed_up(*make(), fixed_engine(2.0, 3.0))
    before, after = make_speedup_patch_pre_post_processors(policy.config)
    asked = _count_rows(policy.base)
    actions = torch.stack([after(policy.select_action(before(_observation(2)))) for _ in range(24)])
    assert actions.shape == (24, 2, 14)
    assert torch.isfinite(actions).all()
    assert asked == [2, 1, 1, 1]  # both at step 0, the second at 8, the first at 12, the second at 16
    assert policy.mean_rate == pytest.approx((2 * 24 + 3 * 24) / (2 * 12 + 3 * 8))


def test_rate_one_is_the_stock_policy_bit_for_bit(make: Make) -> None:
    policy, preprocessor, postprocessor = make()
    patched = speed_up(policy, preprocessor, postprocessor, fixed_engine(1.0))
    before, after = make_speedup_patch_pre_post_processors(patched.config)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        stock = [postprocessor(policy.select_action(preprocessor(_observation(2)))) for _ in range(30)]
        policy.reset()
        torch.manual_seed(1)
        ours = [after(patched.select_action(before(_observation(2)))) for _ in range(30)]
    assert torch.equal(torch.stack(ours), torch.stack(stock))


def test_real_time_chunking_is_refused(make: Make) -> None:
    with pytest.raises(InputError, match=r"real-time chunking.*sped up twice"):
        speed_up(*make(rtc_config=RTCConfig(enabled=True)), fixed_engine(2.0))


def _observation(robots: int) -> dict[str, Any]:
    rng = torch.Generator().manual_seed(0)
    return {
        OBS_STATE: AROUND_START[OBS_STATE]["mean"].repeat(robots, 1),
        CAMERA: torch.rand((robots, 3, SIDE, SIDE), generator=rng),
        "task": ["pick the cube", "cube"][:robots],
    }


def _count_rows(base: Any) -> list[int]:
    counts: list[int] = []
    chunks = base.chunks
    base.chunks = lambda batch, rows: counts.append(len(rows)) or chunks(batch, rows)
    return counts
