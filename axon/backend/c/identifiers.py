"""Names of C for those of a program."""

from __future__ import annotations

import re
import unicodedata

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
    jn gamma lgamma erf erfc time read write open close exit abort malloc free calloc realloc memcpy memset printf puts getenv
    linux unix
"""
_OF_RUNTIME = """
    KEY MOST_THREADS MUST PIECES REQUIRE ROOT SIGNATURE UNUSED WORTH_SHARING arguments axes_of bind bytes bytes_of
    copy_strided cost count cut deliver direct end extents fail first forget_threads from given high in_lines in_rows into
    items job key_of keyed lanes last launch left length low make mask next nothing numbers odd out out_steps own places
    prepare_pool product reach release right room room_for_result row_strides run serve shapes share share_value sizes
    size_floor size_max size_min sort sort_row sort_rows sorting status step step_number steps stopped take tensors
    text_of_error thread threads_available threads_for threads_set to value wanted wide work
"""
_KEYWORDS = frozenset(_OF_LANGUAGES.split())
_LIBRARY = frozenset(_OF_LIBRARIES.split())  # what C headers declare, or compilers know by name
_TAKEN = _LIBRARY | frozenset(_OF_RUNTIME.split())


def identifier(name: str) -> str:
    """A name as C and C++ take it: `α` is alpha, `x'` x_prime, `double` double_."""
    found = re.sub(r"[^A-Za-z0-9_]", lambda match: _spelt(match[0]), name)
    found = re.sub(r"__+", "_", found).lstrip("_") or "unnamed"
    return f"{found}_" if found in _KEYWORDS or found[0].isdigit() else found


def own_name(name: str) -> str:
    """What a function is called: as in Axon, with `axon_` before a name that C has already."""
    found = identifier(name)
    return f"axon_{found}" if found in _LIBRARY else found


def _spelt(character: str) -> str:
    if character == "'":
        return "_prime"
    words = unicodedata.name(character, "").split()
    return words[-1].lower() if words and words[-1].isalnum() else "_"


class Identifiers:
    """Names that differ from one another."""

    def __init__(self, taken: frozenset[str] = _TAKEN) -> None:
        self.taken = set(taken)

    def new(self, name: str) -> str:
        """One like that, with a number where it is taken."""
        like = identifier(name)
        found, number = like, 2
        while found in self.taken:
            found, number = f"{like}_{number}", number + 1
        self.taken.add(found)
        return found
