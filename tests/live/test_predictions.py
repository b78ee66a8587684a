"""Answers: given without a trace, with what is uncertain about them."""

from __future__ import annotations

import torch

from tests.live.months import learner, month, same, state


def test_asking_leaves_no_trace_and_gives_one_answer() -> None:
    ours = learner("ucl")
    ours.learn(month(0), "january")
    before, random = state(ours), torch.get_rng_state()
    x = month(1)[0]
    first = ours.predict(x, task="january", uncertainty=True)
    again = ours.predict(x, task="january", uncertainty=True)
    assert torch.equal(torch.get_rng_state(), random)
    assert same(before, state(ours))
    assert first.disagreement is not None
    assert again.disagreement is not None
    assert torch.equal(first.disagreement, again.disagreement)


def test_uncertainty_is_entropy_and_the_part_of_it_that_comes_from_the_weights() -> None:
    ours = learner("ucl", sigma=0.3)  # noise enough to be seen in every answer
    ours.learn(month(0), "january")
    answer = ours.predict(month(1)[0], task="january", uncertainty=True, draws=50)
    p = answer.probabilities
    assert answer.disagreement is not None
    torch.testing.assert_close(answer.entropy, -(p * p.log()).sum(1))
    assert (answer.disagreement > 0).all()
    assert (answer.disagreement <= answer.entropy).all()
    far = torch.tensor([[0.0, 40.0, -40.0, 40.0]])  # nothing like it was ever seen
    unsure = ours.predict(far, task="january", uncertainty=True, draws=50).disagreement
    assert unsure is not None
    assert unsure[0] > 3 * answer.disagreement.median()


def test_without_uncertain_weights_there_is_no_disagreement_to_report() -> None:
    ours = learner("ewc")
    ours.learn(month(0), "january")
    assert ours.predict(month(0)[0], uncertainty=True).disagreement is None
