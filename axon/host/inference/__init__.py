"""`axon.infer`: the library's inference around a function of a user's, and its draws as ArviZ's InferenceData.

latents    the record, tuple or tensor that the latents are, as one vector
program    a function and its latents -> functions beside it, of chains and of steps, checked as a user's would be
run        chunks of steps, so that progress is shown and Ctrl-C loses nothing drawn so far; what was wrong, in words
report     draws -> InferenceData
"""
