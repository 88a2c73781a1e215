"""Walking expressions: the order, and that depth costs nothing."""

from axon.base.element import Element
from axon.core.ir import Binary, Const, Select, Unary
from axon.core.walk import nodes


def test_parts_come_from_the_outside_and_from_left_to_right():
    one, two, three = (Const(float(n), Element.F32) for n in (1, 2, 3))
    right = Unary("exp", three)
    less = Binary("lt", one, right)
    whole = Select(less, two, one)
    assert list(nodes(whole)) == [whole, less, one, right, three, two, one]


def test_a_deep_expression():
    """Deeper than Python's stack, as a chain of many operations becomes when they dissolve into one."""
    scalar = Const(1.0, Element.F32)
    chain = [scalar]
    for _ in range(20_000):
        chain.append(Unary("exp", chain[-1]))
    assert sum(1 for _ in nodes(chain[-1])) == 20_001
    while chain:
        chain.pop()
