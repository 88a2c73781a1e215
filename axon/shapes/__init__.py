"""What Axon knows about sizes.

The engine is arithmetic and proof, with no syntax, no types and no wording:

    dimension   the normal form of one size            pretty          its text, and a relation's
    relation    a statement about two                  facts           what is assumed, indexed by variable
    prove       decides a relation under facts         counterexample  small sizes that violate one
      refute      contradictions between claims          linear          … over the integers
      groebner    … between products                   solve           equations
                                                         simplify      … and other relations, without what follows
      form        the form of one relation               single      … of all that one variable alone has
      clauses     minima and maxima taken apart          cycles      sizes that inequalities make equal
    core        facts that contradict each other       minimal     none of which can be left out
    contract    what a call must satisfy
      determine   how it finds its dimensions            guard       … compiled to one function, and what is wrong if it fails
      grows       … from what grows with them
      multiples   what divides a size                    legal       sizes near some that break facts, which satisfy them all

On it stands stage two of inference for one declaration:

    constraint  what stage one left for it             settle      solves and proves it: `sizes`, `ranges`, `obligations`
    trouble     what is wrong with it                    given, reach, named, divisibility   … what it assumes and asks
    explain     … in words                               causes, inside   … what the rest follows from
"""
