"""Changes of the source that may mend an error: proposed here, tried by the checker, and shown only if they help.

A change is a *mutation of the syntax tree*: what is to stand in the place of which nodes. `grammar.rewrite` writes it back as an
edit of the text: nodes of the file are copied as they were written, new ones are printed as the formatter does it, with the
parentheses that they need. `mutations.propose` gives a change its words, and shows what becomes of the node around it.

There are few kinds of mutations, each a tree made of nodes of the file:

    another order    `swap`, `permuted`: operands, arguments, fields, stages of a pipeline, indices, bounds, dimension arguments
    another name     a value for a value, a field for a field, an index for an index, a function for its variant
    more, or less    `call` around an expression or none, `indexed`, `quoted`: transposed, merged, cast, negated, read with zeros
    a bound          `bounds.bounded`: of any indices of a comprehension, a reduction or a loop, side by side
    an annotation    of a parameter; a parameter that becomes one of dimensions, `bounds.parameter`
    another size     `written.resized`: in an annotation, where a bound stands, in the braces of a call; or a blank, `{}`
    a fact           in the `where` of a function (`annotations`)

Which are proposed for which trouble, in this order (`changes`; `mend` has the table of the first row):

    sizes clash      values that nothing uses; `mend`: products, operators, calls and comprehensions that the reason speaks of,
                     and accesses (`indices`); where the sizes come from, also in the functions that made them (`bodies`);
                     slices, windows and bounds of the other size (`outside`, `bounds`); other functions of a module (`members`);
                     annotations and facts (`annotations`); blanks (`written`)
    only the data    a comparison at run time (`mend.compared`)
     decide
    an access leaves `outside`: another index, guard or bound, zeros
     its tensor
    an index has no  another name for it in an access; a bound by what it moves along (`bounds`)
     range
    no argument      dimension parameters, bounds of what is split (`undetermined`)
     tells a size
    types do not     `meant`: parentheses, an element at a time, arguments in another order, one more index, another annotation
     fit
    element types    `conversions`: a cast, a point behind an integer, one shape variable for two
     differ
    nothing has a    `renamed`: the member of a module, a conversion, the type that other languages name so
     name

`tried` has the checker try them, counts the tries, and keeps two that help, first the one after which signatures are
more general. `headless` blames declarations without their keyword.
"""
