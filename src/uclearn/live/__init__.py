"""For a model that is in use: taught month by month, guarded, grown, made small and handed over.

`learner` is where to begin: it learns an update on a copy (`aim`, `canaries`, `trial`), asks a
`gate` whether it may stay, writes a `journal`, answers (`answer`, `infer_task`) and keeps itself in
a `folder`; `suggest` picks a strength from the first tasks.

`capacity` says how much room is left, `widen` makes more of it without a change in what the network
computes, `export` takes the network out, smaller if wanted (`prune`), and writes it to a file.
Below them: `anatomy` (what can be resized), `surgery` (resizing, and proof that all still fits),
`growth` (what methods remember of new nodes), `states` (what they say about nodes), `reliance`
(which nodes are needed), `surgeon` (takes the others out), `formats` (files) and `judge` (how good,
how large, how fast).
"""
