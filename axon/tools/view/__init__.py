"""`axon view PATH:NAME`: one page of HTML about a function, which needs nothing beside itself.

`source` says what is known at each place of the text, `graph` makes operations and kernels into cards and edges, `layout` places
them, `draw` draws them and the roles of kernels over time, and `page` puts everything together.
"""
