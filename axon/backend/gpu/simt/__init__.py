"""Plain kernels: every nest of a plan as one SIMT kernel, whatever its element types and accesses.

    mapping   how a nest is spread over threads, as data, and which one suits given sizes
    access    which reads and stores move several neighbours at once
    general   … and for any size; halves, pieces, tiles: rows in two values a word, in shared memory, transposed
    peaks     running maxima as a maximum beside what it corrects; reductions: how threads of a row bring theirs together
    writer    scalar expressions for threads that hold one element or several
    emit      a nest and its mapping as Python that numba-cuda compiles

They are the case of one role: nothing waits for anything but the threads of a row for each other, so there is nothing to prove.
"""
