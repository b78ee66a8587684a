"""Data of one's own, wherever a benchmark's name stands: files are read once and cached, tasks are
made of them, and a fingerprint notices when they change.

Read `examples` (what comes out of any file), `sequence` (from examples to tasks), then `source`
(a description that stands in a run's configuration). Every other module reads one kind of file.
"""
