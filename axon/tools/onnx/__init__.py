"""`axon import`: an ONNX graph as a program that a person reads, and its weights beside it.

    model.onnx -> graph     read        protobuf to frozen nodes, without what only says how a file is kept
               -> graph     idioms      several nodes that are one thing: a GELU, a linear layer, a guard against NaN
               -> steps     translate   shapes, masks and positions fold into sizes and places; what is left computes
               -> steps     modules     steps of one module become a function, equal modules one, layers a loop
               -> text      writing     names, types of records, expressions; laid out by Axon's own formatter

and `weights` writes what the records hold. Nothing here runs a graph: what it means is said by the program alone.
"""
