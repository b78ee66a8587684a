"""What a session found: what every task earned, evaluation by evaluation."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Evaluation:
    """What every task seen so far earned at one moment."""

    task: int
    """The task being learned."""
    iteration: int
    """Iterations of it that are done."""
    steps: int
    """Steps of all tasks so far."""
    returns: list[list[float]]
    """The raw returns of each task's episodes, in the order of tasks."""

    def means(self) -> list[float]:
        """The mean return of each task seen so far."""
        return [sum(own) / len(own) for own in self.returns]


@dataclass
class Outcome:
    """What a session found."""

    evaluations: list[Evaluation] = field(default_factory=list)
    """In the order of time."""
    seconds: float = 0.0
    """Time spent learning and judging, over all resumed parts."""

    def curve(self) -> list[list[float]]:
        """The mean returns at each evaluation, as `uclearn.measures.rewards` wants them."""
        return [evaluation.means() for evaluation in self.evaluations]
