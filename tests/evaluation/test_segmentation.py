"""Scores of a decomposition, on small cases with known answers and beside scikit-learn."""

import numpy as np
import pytest

from cobra_rl.evaluation.segmentation import adjusted_rand_index, count_overlap, foreground_ari, match, match_shares


def test_ari_is_that_of_scikit_learn():
    from sklearn.metrics import adjusted_rand_score

    rng = np.random.default_rng(0)
    truth, guess = rng.integers(0, 4, (3, 5, 60)), rng.integers(0, 6, (3, 5, 60))
    guess[0] = np.where(rng.random((5, 60)) < 0.7, truth[0], guess[0])
    truth[1, 0], guess[1, 0] = 2, 3  # one cluster each
    truth[1, 1] = 2  # one cluster, several guessed
    guess[1, 2] = 5
    ours = adjusted_rand_index(count_overlap(truth, guess, 4, 6)[:, 1:]).reshape(3, 5)
    theirs = [
        [adjusted_rand_score(t, g) for t, g in zip(*rows, strict=True)] for rows in zip(truth, guess, strict=True)
    ]
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_ari_leaves_negative_labels_out():
    from sklearn.metrics import adjusted_rand_score

    rng = np.random.default_rng(0)
    truth, guess = rng.integers(-1, 3, 200), rng.integers(0, 3, 200)
    inside = truth >= 0
    ours = adjusted_rand_index(count_overlap(truth, guess, 3, 3)[:, 1:])
    assert ours == pytest.approx(adjusted_rand_score(truth[inside], guess[inside]))


def test_foreground_ari_is_nan_where_there_is_nothing_to_tell_apart():
    truth = np.array([[-1, -1, 0, 0, 1, 1], [-1, -1, -1, 0, 0, 0]])
    guess = np.array([[0, 1, 2, 2, 1, 1], [0, 0, 0, 1, 2, 1]])
    np.testing.assert_array_equal(foreground_ari(count_overlap(truth, guess, 2, 3)), [1.0, np.nan])


def shares(overlap, areas):
    return match_shares(match(np.array([overlap]), np.array([areas])))


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ([[90, 5, 5], [0, 50, 0], [0, 0, 50]], {"alone": 1.0, "split": 0.0, "shared": 0.0}),
        ([[90, 5, 5], [8, 40, 2], [0, 10, 40]], {"alone": 1.0, "split": 0.0, "shared": 0.0}),  # 80 % are enough
        ([[90, 5, 5], [8, 39, 3], [0, 0, 50]], {"alone": 0.5, "split": 0.5, "shared": 0.0}),
        ([[90, 5, 5], [0, 50, 0], [0, 50, 0]], {"alone": 0.0, "split": 0.0, "shared": 1.0}),
        ([[90, 5, 5], [50, 0, 0], [0, 0, 50]], {"alone": 0.5, "split": 0.0, "shared": 0.5}),  # in the background's
    ],
)
def test_shares(overlap, expected):
    assert shares(overlap, [50, 50]) == expected


def test_hidden_and_absent_sprites_do_not_count():
    overlap = [[90, 5, 5], [0, 24, 0], [0, 0, 25], [0, 0, 0]]
    found = match(np.array([overlap]), np.array([[50, 50, 0]]))
    np.testing.assert_array_equal(found.counted, [[False, True, False]])
    assert all(np.isnan(share) for share in shares([[90], [0]], [0]).values())
