"""The diagonal of the empirical Fisher information: how much each weight matters to a task.

    F_i = mean over examples of (d loss / d theta_i)^2

exactly, example by example. The authors of the paper squared the *mean* gradient of batches of 20
instead, which is about a twentieth of that, since gradients of single examples largely cancel;
the values of lambda that they published belong to it (`fisher_batch=20`), with dropout left on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from uclearn.methods.parts.per_example import importance


def fisher_diagonal(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    losses: Iterable[Tensor],
    *,
    fisher_batch: int | None = None,
) -> dict[str, Tensor]:
    """For each parameter, by name, the mean over examples of its squared gradient.

    Args:
        model: the network that the losses go through.
        parameters: those whose diagonal is asked for.
        losses: batches of per-example losses, (batch,), with graph, made while iterating. Their
            sizes do not matter.
        fisher_batch: square the mean gradient of so many consecutive examples; None: of each. A
            last, incomplete batch counts by its size.

    >>> import torch
    >>> net = nn.Linear(1, 1, bias=False)
    >>> x = torch.tensor([[1.0], [3.0]])
    >>> diagonal = fisher_diagonal(net, {"weight": net.weight}, (net(x)[:, 0] for _ in range(1)))
    >>> diagonal["weight"]  # (1^2 + 3^2) / 2
    tensor([[5.]])
    """
    found = importance(model, list(parameters.values()), losses, "square", fisher_batch or 1)
    return dict(zip(parameters, found, strict=True))
