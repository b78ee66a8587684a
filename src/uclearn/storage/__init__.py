"""What lasts: files that a crash, a full disk or a second process cannot spoil.

Read in this order: `files` (whole ones, ones that grow line by line, one process per folder);
`checkpoint` (the files) and `container` (their bytes); `records` (the results of a run), `recorder`
(who writes them), and `mirror` (runs kept at a URL). Only the two of the checkpoint, and the mirror
that names their file, import torch: results can be read where it is not installed.
"""
