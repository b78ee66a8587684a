"""The paper as data: what it did, what it found, and what is run to do it again.

"Uncertainty-based Continual Learning with Adaptive Regularization", NeurIPS 2019. `settings` has
what its authors published, each value with its source, and the grids that they tried; `ours` what
we set ourselves; `numbers` their results; `studies` the runs of each figure. Nothing here needs
torch.
"""
