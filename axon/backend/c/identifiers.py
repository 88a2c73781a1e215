"""Names of C for those of a program."""

from __future__ import annotations

import re

_OF_LANGUAGES = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const consteval constexpr
    constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or
    or_eq private protected public register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned
    using virtual void volatile wchar_t while xor xor_eq
"""
_OF_LIBRARIES = """
    main NULL errno stdin stdout stderr signal index rindex exp log sin cos tan pow sqrt floor ceil round abs y0 y1 yn j0 j1
    jn gamma lgamma erf erfc time read write open close exit abort malloc free calloc realloc memcpy memset memmove printf
    size_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t puts getenv linux unix
"""
_OF_CALLS = """
    bytes cost direct end extents first from high into items lanes last left length low mask next numbers odd out out_steps own
    places right sizes status step step_number steps stopped tensors to wanted
"""
_KEYWORDS = frozenset(_OF_LANGUAGES.split())
_LIBRARY = frozenset(_OF_LIBRARIES.split())  # what C headers declare, or compilers know by name
_TAKEN = _LIBRARY | frozenset(_OF_CALLS.split())  # what the functions that are written have beside a program's own names


def identifier(name: str) -> str:
    """A name as C and C++ take it: `double` is double_. Names that begin with ax_ or axon_ are the runtime's."""
    found = re.sub(r"__+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)).lstrip("_") or "unnamed"
    if found[0].isdigit() or found.lower().startswith(("ax_", "axon_")):
        return f"own_{found}"
    return f"{found}_" if found in _KEYWORDS else found


def own_name(name: str) -> str:
    """What a function is called: as in Axon, with `axon_` before a name that C has already."""
    found = identifier(name)
    return f"axon_{found}" if found in _LIBRARY else found


class Identifiers:
    """Names that differ from one another."""

    def __init__(self, taken: frozenset[str] = _TAKEN) -> None:
        self.taken = set(taken)

    def new(self, name: str) -> str:
        """One like that, with a number where it is taken."""
        return self.unique(identifier(name))

    def unique(self, like: str) -> str:
        """The same of what is a name of C already."""
        found, number = like, 2
        while found in self.taken:
            found, number = f"{like}_{number}", number + 1
        self.taken.add(found)
        return found


def entries(symbol: str) -> tuple[str, ...]:
    """What a header declares beside a function."""
    return tuple(f"{symbol}_{end}" for end in ("shapes", "into", "free", "error", "set_threads"))
