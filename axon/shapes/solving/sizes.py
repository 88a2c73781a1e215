"""What is known of the sizes of one declaration while it is settled: its equations, and their solution so far."""

from __future__ import annotations

from collections.abc import Iterable

from axon.base.data import replace
from axon.base.names import Symbol
from axon.shapes.algebra.cycles import made_equal
from axon.shapes.algebra.prove import Answer, Facts, prove, unsatisfiable
from axon.shapes.constraint import Context, Problem, Use
from axon.shapes.dimension import Dim, Minimum, atom_key
from axon.shapes.relation import Relation
from axon.shapes.solving.equations import Equation, Solution, solve
from axon.shapes.solving.given import given
from axon.shapes.solving.reach import Reach
from axon.shapes.solving.simplify import in_order


class SettledSizes:
    """The steps that settle a declaration share one of these. `equals` grows, and `solve` solves what has come."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        resolve = problem.resolve
        sides = ((e, resolve(e.left), resolve(e.right)) for e in problem.equals)
        self.equals = [e if a is e.left and b is e.right else replace(e, left=a, right=b) for e, a, b in sides]
        self.uses = [Use(resolve(u.index), resolve(u.target), u.context, u.span, u.base, u.axis, u.padded) for u in problem.uses]
        assumed, _ = given((r for r, _ in problem.assumed), problem.data, resolve, frozenset(problem.flexible))
        self.facts = Facts().assume(*in_order(assumed), *(equation for equation, _ in made_equal(assumed)))
        self.order = dict.fromkeys(problem.flexible)  # what is solved for: the last first
        self.solution = Solution({}, (), (), ())
        self._solved = 0  # how many equations the solution is of

    def solve(self) -> None:
        if self._solved == len(self.equals):
            return
        self._solved = len(self.equals)
        system = [Equation(e.left, e.right, e, self._guards(e.context)) for e in self.equals]
        p = self.problem
        self.solution = solve(system, tuple(self.order), self.facts, p.kept, p.blame, p.loose, p.quotients)

    def _guards(self, context: Context) -> tuple[Relation, ...]:
        """What the conditions around something say, and of the indices that they mention, how far those run."""
        if not context.guards:
            return ()
        resolve = self.problem.resolve
        guards = [Relation(resolve(g.left), g.op, resolve(g.right)) for g in context.guards]
        mentioned = frozenset[Symbol]().union(*(g.variables for g in guards))
        indices = [Relation(Dim.of(s), "<", resolve(e)) for s, e in context.indices if s in mentioned]
        return (*guards, *indices)

    def now(self, dim: Dim) -> Dim:
        """A size by what is solved."""
        return self.problem.resolve(dim).substitute(self.solution.substitution)

    def relation(self, relation: Relation) -> Relation:
        """A relation by what is solved."""
        return Relation(self.now(relation.left), relation.op, self.now(relation.right))

    def reach(self, context: Context) -> Reach:
        """How far what stands in a context reaches, by what is known now."""
        guards = tuple(self.relation(g) for g in context.guards)
        return Reach(self.facts, {s: self.now(e) for s, e in context.indices}, guards, bool(context.conditions))

    def bounds(self) -> tuple[list[Relation], list[Relation]]:
        """What bounds the sizes that data decide, by what is solved: as `given` has it, for all and for those alone."""
        p = self.problem
        return given((r for r, _ in p.assumed if r.variables & p.data), p.data, self.now, frozenset(p.flexible))

    def free(self) -> frozenset[Symbol]:
        """The sizes that nobody named for this declaration."""
        return self.problem.outer.union(self.problem.flexible, self.problem.data)


def impossible(facts: Facts, relation: Relation, given: Iterable[Relation] = ()) -> bool:
    """Refuted, or possible only with some size at 0 or 1, which are meant where one of several conditions says so."""
    given = tuple(given)
    if prove(facts.assume(*given), relation) is Answer.REFUTED:
        return True
    facts = facts.assume(*(r for r in given if not any(isinstance(a, Minimum) for a in r.slack.atoms)))
    large = facts.assume(*(Relation(Dim.of(v), ">=", Dim.of(2)) for v in sorted(relation.variables, key=lambda v: v.id)))
    return prove(large, relation) is Answer.REFUTED


def contradict(asked: Iterable[Relation], facts: Facts) -> bool:
    """Whether what is asked of every call is seen to be impossible: then it proves nothing."""
    asked = tuple(asked)
    return any(r.trivial is False for r in asked) or unsatisfiable(facts.assume(*asked))


def not_negative(size: Dim) -> Relation:
    """size >= 0; of `q / s + c` without the division: q >= -c * s."""
    for quotient in sorted(size.quotients, key=atom_key):
        rest = size - quotient.dividend // quotient.divisor
        if rest.constant is not None:
            return Relation(quotient.dividend, ">=", -rest * quotient.divisor)
    return Relation(size, ">=", Dim.of(0))
