"""What lasts: files that a crash, a full disk or a second process cannot spoil.

Read in this order: `atomic` (whole files), `jsonl` (files that grow line by line), `lock` (one
process per folder), `checkpoint` (tensors and what stands around them, by `skeleton`), `schema`,
`environment` and `records` (the results of a run). All but `checkpoint` and `skeleton` do without
torch, so that results can be read where it is not installed.
"""
