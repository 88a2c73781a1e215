"""`axon.infer`: the library's inference around a function of a user's, and its draws as ArviZ's InferenceData.

latents      the record, tuple or tensor that the latents are, as one vector
density      a model or a function, its data and its latents
program      a function and its latents -> functions beside it, of chains, particles and peaks, checked as a user's would be
asked        what a method is asked for, and what it gives
starts       where chains and searches begin; what was wrong, in words
chains       chunks of steps, so that progress is shown and Ctrl-C loses nothing drawn so far
weighted     draws of the prior, and particles that go from there to the posterior
approximate  peaks, and normal densities there
report       draws -> InferenceData
run          what is asked for, checked, and which method does it
"""
