"""Names of a program never meet those of C: of its headers, its macros, its words, the runtime's own.

What C has is asked of the C compiler of this machine, with every header of C and POSIX that it has.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from random import Random

import pytest

import axon
from axon.backend.c.header import Described
from axon.backend.c.identifiers import entries, identifier, own_name
from axon.backend.c.library import prepared
from axon.base.errors import AxonError
from axon.grammar.table import load
from axon.host.call import Session
from axon.host.ranked import COMMAND_LINE
from axon.host.solve import asked
from tests.sample import SOAK

HEADERS = """
    aio.h arpa/inet.h assert.h complex.h cpio.h ctype.h dirent.h dlfcn.h errno.h fcntl.h fenv.h float.h fmtmsg.h fnmatch.h ftw.h
    glob.h grp.h iconv.h inttypes.h iso646.h langinfo.h libgen.h limits.h locale.h math.h monetary.h mqueue.h ndbm.h net/if.h
    netdb.h netinet/in.h netinet/tcp.h nl_types.h poll.h pthread.h pwd.h regex.h sched.h search.h semaphore.h setjmp.h signal.h
    spawn.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h strings.h stropts.h
    sys/epoll.h sys/ioctl.h sys/ipc.h sys/mman.h sys/msg.h sys/param.h sys/resource.h sys/select.h sys/sem.h sys/shm.h
    sys/socket.h sys/stat.h sys/statvfs.h sys/time.h sys/times.h sys/types.h sys/uio.h sys/un.h sys/utsname.h sys/wait.h syslog.h
    tar.h termios.h tgmath.h threads.h time.h uchar.h ulimit.h unistd.h utime.h utmpx.h wchar.h wctype.h wordexp.h
"""
EVERYTHING = "#define _GNU_SOURCE\n" + "".join(f"#if __has_include(<{h}>)\n#include <{h}>\n#endif\n" for h in HEADERS.split())
ROUNDS = 60 if SOAK else 1


def cc(*options: str, text: str) -> str:
    command = ["cc", "-std=gnu11", *options, "-x", "c", "-"]
    ran = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr[:2000]
    return ran.stdout


@cache
def macros() -> frozenset[str]:
    """Those without arguments."""
    return frozenset(re.findall(r"^#define (\w+)(?= |$)", cc("-dM", "-E", text=EVERYTHING), re.MULTILINE))


@cache
def declared() -> frozenset[str]:
    """Every name that the text of the headers has."""
    return frozenset(re.findall(r"\b[A-Za-z_]\w*", cc("-E", "-P", text=EVERYTHING)))


def test_no_macro_is_met() -> None:
    assert len(macros()) > 1000
    assert {"NAN", "I", "errno", "st_atime", "M_PIf", "linux"} <= macros()
    assert [name for name in sorted(macros()) if identifier(name) in macros()] == []


def test_what_a_linker_sees_is_ours() -> None:
    names = declared() | macros()
    assert [name for name in sorted(names) if own_name(name) in names] == []
    # Beside functions of these names, headers declare these.
    common = ["axon_status", "axon_f16", "axon_f32_2", "axon_f32_2_of", *entries("axon_f")]
    told = [own_name(name.removeprefix("axon_")) for name in common]
    assert not {*told} & {*common}
    assert len({*told}) == len(told)
    assert own_name("own_f_free") != own_name("f_free")
    assert (own_name("f"), own_name("remove"), own_name("f32")) == ("axon_f", "axon_remove", "axon_own_f32")


def usable(name: str) -> bool:
    return name not in load().literals and name.strip("_") != ""


def library(text: str, name: str) -> tuple[str, str]:
    """The header and the C of a function, without its kernels."""
    session = Session(axon.compile(text)._session.checked)
    question = asked(session, session.callee(name), (), {}, None, {}, {}, COMMAND_LINE, {})
    about = Described(own_name(name), name, "text", session.callee(name).signature, question.at.name, "native")
    made = prepared(question.at.program, about, {})
    return made.header, made.source


def program(names: list[str]) -> str:
    """A program that has all of these names: of the function, sizes, parameters, fields, values and states of a loop."""
    function, size, other, given, one, two, alone, value, state = names
    return f"""
fun {function} {{{other}}} ({given} : {{ {one} : f32[{size}, {other}], {two} : f64 }}) ({alone} : f32[{size}]) =
  let val {value} = sort {alone}
      val {state} = loop ({state} = {value}) for _ < 3 => for i => exp {state}[i] + {given}.{one}[i, 0]
  in {{ {value} = {state}, {one} = sum i => {value}[i], {alone} = {given}.{two} }} end
"""


@pytest.mark.parametrize("round", range(ROUNDS))
def test_hostile_names(round: int, tmp_path: Path) -> None:
    """Every part of a program called as something of C's, or as what its own text has; all headers come first."""
    random = Random(round)
    own = frozenset(re.findall(r"\b[A-Za-z]\w*", "".join(library("fun f (x : f32[n]) = sort x", "f"))))
    pools = [sorted(filter(usable, pool)) for pool in (own, macros(), declared())]
    tried = 0
    while tried < 4:
        names = [name for pool in pools for name in random.sample(pool, 3)]
        random.shuffle(names)
        if len({*names}) < len(names):
            continue
        try:
            header, source = library(program(names), names[0])
        except AxonError:
            continue  # one of them is a word of Axon's there
        tried += 1
        file = f"{own_name(names[0])}.h"
        (tmp_path / file).write_text(header)
        warnings = "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", f"-I{tmp_path}"
        cc(*warnings, text=f'{EVERYTHING}#include "{file}"\n')
        cc(*warnings, text=source)
