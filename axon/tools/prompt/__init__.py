"""`axon repl`, and what notebooks share with it: a module that grows."""
