"""What lasts: files that a crash, a full disk or a second process cannot spoil.

Read in this order: `atomic` (whole files), `jsonl` (files that grow line by line), `lock` (one
process per folder); `checkpoint` (the files), `container` (their bytes) and `skeleton` (what stands
around the tensors); `records` (the results of a run), `recorder` (who writes them), `schema` (their
versions), `environment`, `capacity` (what recorded nodes say about how full a network is), and
`mirror` (runs kept at a URL). Only the three of the checkpoint, and the mirror that names their
file, import torch: results can be read where it is not installed.
"""
