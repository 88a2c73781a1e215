"""Names of C for those of a program, which no header of C's or C++'s can have.

Note [Names]
    A linker knows one name for one thing, so what it sees, types, and files begin with `axon_`: a function `remove` of Axon's is
    axon_remove, in libaxon_remove.so. Fields and parameters have nothing to fear but words of the languages and macros, since
    these are replaced wherever they stand; such a name gets a `_` behind it. Inside of what is written, names that begin with ax_
    are the runtime's, and `_IN_CALLS` has the others.
"""

from __future__ import annotations

import re

from axon.base.element import Element

_OF_LANGUAGES = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept const
    consteval constexpr constinit const_cast continue contract_assert co_await co_return co_yield decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict return short signed
    sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename typeof
    typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
# Macros that C, POSIX, GCC and Clang define though they are in small letters. Those that take arguments do no harm: no name that
# is written here has a parenthesis behind it.
_SMALL_MACROS = """
    basename complex d_fileno errno h_addr h_errno hpux i386 imaginary linux math_errhandling mips msg_cbytes noreturn
    sched_priority sparc stderr stdin stdout sun unix
"""
# What the functions that are written have beside a program's own names, and types that they use.
_IN_CALLS = """
    NULL bytes cost direct end extents first from high int8_t int16_t int32_t int64_t into items lanes last left length low mask
    memory next numbers odd out out_steps own places right size_t sizes status step step_number steps stopped stream tensors threads
    to uint8_t uint16_t uint32_t uint64_t uintptr_t wanted workspace
"""
_UNUSABLE = frozenset([*_OF_LANGUAGES.split(), *_SMALL_MACROS.split()])
# As macros are written: a capital and no small letter behind it (NAN, M_PIf, B0), or I; and members of POSIX's structs.
_LIKE_MACROS = re.compile(r"[A-Z][A-Z0-9_]|I$|(ifa|ifc|ifr|s6|sa|si|sigev|st)_")
_TAKEN = frozenset(_IN_CALLS.split())
_ENDS = ("shapes", "into", "free", "error", "set_threads", "workspace", "check")
# After axon_: what headers declare for all functions, or for another one.
_DECLARED = re.compile(rf"(own|ax|axon)_|status$|({'|'.join(e.value for e in Element)})(_\d+(_of)?)?$|.*_({'|'.join(_ENDS)})$")


def identifier(name: str) -> str:
    """What a parameter, a field or a size is called: as in Axon, with a `_` behind words of C and C++ and what may be a macro."""
    found = _plain(name)
    if found[0].isdigit() or found.lower().startswith(("ax_", "axon_")):
        return f"own_{found}"
    return f"{found}_" if found in _UNUSABLE or _LIKE_MACROS.match(found) else found


def own_name(name: str) -> str:
    """What a function is called: `axon_` and its name, with `own_` between them where a header would declare that otherwise."""
    found = _plain(name)
    return f"axon_own_{found}" if _DECLARED.match(found) else f"axon_{found}"


def _plain(name: str) -> str:
    """Without what is reserved: C++ keeps every name with `__` in it, C those that begin with `_`."""
    return re.sub(r"__+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)).strip("_") or "unnamed"


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
    return tuple(f"{symbol}_{end}" for end in _ENDS)
