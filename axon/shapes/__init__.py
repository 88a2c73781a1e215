"""What Axon knows about sizes: arithmetic and proof, with no syntax, no types and no wording.

`dimension` is the normal form of one size, `relation` a statement about two, `prove` decides such statements under facts,
`solve` solves equations, `contract` is what a call must satisfy.
"""
