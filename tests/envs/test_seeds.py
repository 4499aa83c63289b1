"""What seeds are for: every seed has one purpose, and nothing is run over seeds of two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedup_patch.envs.seeds import DEMONSTRATIONS, DEVELOPMENT, FRESH, collection_seeds, common_scenes, scenes_of
from speedup_patch.errors import InputError
from speedup_patch.evaluation.run import EvaluationConfig, EvaluationResult
from speedup_patch.evaluation.seconds import Clock


@pytest.mark.parametrize(
    ("seed", "scenes"),
    [
        (0, "evaluation"),
        (DEVELOPMENT - 1, "evaluation"),
        (DEVELOPMENT, "development"),
        (DEMONSTRATIONS - 1, "development"),
        (DEMONSTRATIONS, "demonstrations"),
        (FRESH - 1, "demonstrations"),
        (FRESH, "fresh"),
    ],
)
def test_every_seed_has_one_purpose(seed: int, scenes: str) -> None:
    assert scenes_of(seed) == scenes


@given(collection=st.integers(0, 68))
def test_collections_share_no_seed_and_stay_among_the_demonstrations(collection: int) -> None:
    seeds = collection_seeds(collection)
    assert common_scenes(seeds) == "demonstrations"
    assert collection == 0 or collection_seeds(collection - 1)[-1] < seeds[0]


@pytest.mark.parametrize("collection", [-1, 69])
def test_a_collection_beyond_them_is_refused(collection: int) -> None:
    with pytest.raises(InputError, match=f"between 0 and 68, not {collection}"):
        collection_seeds(collection)


def test_a_run_says_what_its_seeds_are_for_and_refuses_two_kinds() -> None:
    def config(first_seed: int) -> EvaluationConfig:
        return EvaluationConfig("libero/goal", "bundled:libero/goal", ("base",), 20, first_seed)

    assert EvaluationResult(config(0), {}, Clock(50.0, 900), None).to_json()["scenes"] == "evaluation"
    assert EvaluationResult(config(DEVELOPMENT), {}, Clock(50.0, 900), None).to_json()["scenes"] == "development"
    with pytest.raises(InputError, match=r"seeds 49990 .. 50009 .*development from 50000"):
        config(DEVELOPMENT - 10)
    with pytest.raises(InputError, match="negative"):
        config(-1)
