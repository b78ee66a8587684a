"""What several methods share.

- `anchors`: weights held to where earlier tasks left them (EWC, SI, MAS, RWalk)
- `per_example`, `layer_gradients`: importance by the gradients of single examples (EWC, MAS)
- `fit`: a few lines of optimisation (VCL's start, a coreset's refits)
- `wrapper`: a method around another (coresets, replay)
- `guards`: mistakes noticed early
"""
