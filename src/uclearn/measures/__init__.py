"""What is read from results: `accuracy` (the accuracy matrix), `capacity` (how full a network is),
`rewards` (what was earned while acting), `statistics` (how sure a number is).

Pure functions of numbers. Nothing here needs torch.
"""
