"""What Axon knows about sizes: here as data, in three folders what is done with them.

    dimension   the normal form of one size            pretty      its text, and a relation's
    relation    a statement about two                  width       between which numbers sizes lie
    constraint  what stage one of inference leaves for stage two

The engine is arithmetic and proof, with no syntax, no types and no wording. In `algebra`:

    prove       decides a relation under facts         facts           what is assumed, indexed by variable
      refute      contradictions between claims          linear          … over the integers
      polynomials what SymPy is asked: factors, ideals    remainders      equations that no sizes satisfy
      form        the form of one relation               single          … of all that one variable alone has
      clauses     minima and maxima taken apart          cycles          sizes that inequalities make equal
      divisibility  quotients said without them
    counterexample  small sizes that violate a claim   grid            … all of a grid of them at once
    upper_bound what an expression never exceeds       monotone        where a size grows with another

On it stands stage two of inference for one declaration, `solving`:

    settle      finds `ranges`, solves (`equations`), proves `obligations`; `sizes` is its state
    reach       how far expressions over indices go    given, named    what it assumes, what it must not equate
    simplify    relations without what follows         unsatisfiable   facts that contradict each other
    trouble     what is wrong, as data                 causes          what the rest follows from

And on both what a call is asked, `contracts`:

    contract    what it must satisfy                   determine       how it finds its dimensions
    guard       … compiled to one function             broken, legal   what is wrong, and sizes that would do
"""
