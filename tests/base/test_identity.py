"""Maps and sets by identity: equal objects stay apart, keys stay alive, and the order is that of insertion."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from dataclasses import dataclass

import pytest

from axon.base.identity import IdentityMap, IdentitySet


@dataclass(frozen=True)
class Node:
    number: float
    parts: tuple[Node, ...] = ()


def test_equal_objects_are_different_keys() -> None:
    one, other = Node(1), Node(True)
    assert one == other
    found = IdentityMap([(one, "one")])
    assert one in found
    assert other not in found
    assert found.get(other) is None
    assert found.get(other, "none") == "none"
    found[other] = "other"
    assert (found[one], found[other], len(found), list(found.values())) == ("one", "other", 2, ["one", "other"])
    assert [(key is one, value) for key, value in found.items()] == [(True, "one"), (False, "other")]
    assert found.setdefault(one, "another") == "one"
    assert found.setdefault(Node(1), "third") == "third"
    assert found.pop(one) == "one"
    assert one not in found
    assert found.pop(one, None) is None
    for ask in (found.__getitem__, found.pop):
        with pytest.raises(KeyError):
            ask(one)
    assert [value for _, value in found.items()] == ["other", "third"]


def test_a_set_keeps_the_order_in_which_objects_came() -> None:
    nodes = [Node(n % 3) for n in range(50)]
    seen = IdentitySet(nodes)
    seen.add(nodes[0])
    assert len(seen) == 50
    assert [a is b for a, b in zip(seen, nodes, strict=True)] == [True] * 50
    assert nodes[7] in seen
    assert Node(1) not in seen
    seen.discard(nodes[7])
    seen.discard(nodes[7])
    assert nodes[7] not in seen
    assert len(seen) == 49


def test_a_temporary_cannot_lend_its_address_to_another() -> None:
    """A dictionary of `id`s takes an object for one that has died: its memory is used again at once."""
    found: IdentityMap[Node, int] = IdentityMap()
    seen: IdentitySet[Node] = IdentitySet()
    for n in range(1000):
        temporary = Node(n)
        assert temporary not in found
        assert temporary not in seen
        found[temporary] = n
        seen.add(temporary)
        del temporary
    assert all(key.number == n for key, n in found.items())


def test_what_is_not_held_any_more_is_let_go() -> None:
    node = Node(1)
    gone, found, seen = weakref.ref(node), IdentityMap([(node, 1)]), IdentitySet([node])
    found.pop(node)
    seen.discard(node)
    del node
    gc.collect()
    assert gone() is None


def test_shared_parts_are_neither_hashed_nor_compared() -> None:
    node = Node(0)
    for _ in range(100):  # a tree of 2**100 nodes
        node = Node(1, (node, node))
    found = IdentityMap([(node, "deep")])
    assert found[node] == "deep"
    assert node in IdentitySet([node])


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_finds_the_objects_that_it_holds(way: object) -> None:
    node = Node(1)
    held, found, seen = way((node, IdentityMap([(node, "one")]), IdentitySet([node])))  # type: ignore[operator]
    assert found[held] == "one"
    assert held in seen
    assert len(found) == len(seen) == 1
