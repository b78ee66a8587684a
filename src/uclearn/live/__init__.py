"""For a model that is in use: taught month by month, guarded, grown, made small and handed over.

`learner` is where to begin: it takes `new_data`, sets some of them apart (`canaries`), learns an
`update` on a copy, asks a `gate` whether it may stay, predicts (`predictions`, `infer_task`) and
keeps itself and its journal in a `folder`; `suggest` picks a strength from the first tasks.

`capacity` says how much room is left, `export` takes the network out, smaller if wanted, and writes
it to a file (`formats`). Networks are made larger and smaller by `uclearn.surgery`.
"""
