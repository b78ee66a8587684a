"""What methods are made of; each file of `uclearn.methods` says which of these it needs.

- UCL: `held` (what it remembers of a layer)
- EWC, SI, MAS, RWalk: `memory` (anchors and importances), `path` (the path integral), `fisher` and
  `per_example` (gradients of single examples, by `layer_uses` and `layer_gradients`)
- HAT: `gates`, `wiring` (what stays alive when nodes are closed), `keep` (what must not move)
- VCL: `mean_field` (a variance per weight), `draws` (several draws in one pass), `fit`
- LwF: `watch` (use again what a forward pass made)
- wrappers: `wrapper`, `reservoir` (replay), `withheld` (coresets)
- all: `guards` (mistakes noticed early)
"""
