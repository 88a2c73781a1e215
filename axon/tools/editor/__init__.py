"""What editors, the prompt and pages ask of a program: facts about places in it, kept up to date while it is being written.

Nothing here knows a protocol. `chunks` cuts a file at its declarations, `analysis` checks those that an edit reaches, `names` finds
what every name stands for, `facts` what type every place has; the other modules answer one kind of question each.
"""
