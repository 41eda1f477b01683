"""Which headers and macros a C unit can see."""

from __future__ import annotations

from sdk.toolchains.includes import included, mentioned

HEADERS = {
    "a.h": '#include "in/b.h"\n',
    "in/b.h": '#  include "c.h" /* beside it */\n#include "../d.h"\n#include <stdint.h>\n',
    "in/c.h": "int c;\n",
    "d.h": '#ifdef X\n#include "a.h"\n#endif\n',
    "other.h": "int other;\n",
}


def test_headers_are_followed_through_others() -> None:
    assert included("m.c", '#include "a.h"\n', HEADERS) == ["a.h", "in/b.h", "in/c.h", "d.h"]
    assert included("m.c", "#include <in/c.h>\n", HEADERS) == ["in/c.h"]
    assert included("in/m.c", '#include "c.h"\n', HEADERS) == ["in/c.h"]
    assert included("m.c", 'int a; // "a.h"\n', HEADERS) == []


def test_a_name_that_a_macro_makes_may_be_any_header() -> None:
    assert included("m.c", "#include CONFIG\n", HEADERS) == list(HEADERS)
    assert included("m.c", '#include "in/x.h"\n', {**HEADERS, "in/x.h": "#include MADE\n"}) == [*HEADERS, "in/x.h"]


def test_macros_are_those_named() -> None:
    defines = ("A=1", "AB", "C=x")
    assert mentioned(defines, ["int a = AB;"]) == ("AB",)
    assert mentioned(defines, ["int a = A;", "#if C"]) == ("A=1", "C=x")
    assert mentioned(defines, ["#define NAME(x) A ## x"]) == defines
