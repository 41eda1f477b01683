"""The JNI library of an app by zig, as its CMakeLists.txt has the NDK link it, and what Google Play asks of one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from sdk.toolchains import zig

PAGE = 16384
# what zig is told of Android's names
TARGETS = {
    "arm64-v8a": ["aarch64-linux-android"],
    "x86_64": ["x86_64-linux-android"],
    "armeabi-v7a": ["arm-linux-androideabi", "-mcpu=generic+v7a+vfp3d16", "-mfloat-abi=softfp"],
}
_BIONIC = Path(__file__).with_name("bionic")


def link_android(project: Path, m: str, abi: str, folder: Path) -> Path:
    """The library of an instruction set, against a C library that has only what Android's has; where a GPU may be asked
    for, with what opens its library."""
    cpp = project / "model" / "src" / "main" / "cpp"
    cc = [zig._zig()[0], "cc", "-target", *TARGETS[abi], "-nostdlib", "-fPIC", "-fno-sanitize=all"]
    env = zig.ZigToolchain().environment()
    text = (cpp / "CMakeLists.txt").read_text()
    system = [folder / name for name in ("libc.so", *(["libdl.so"] if "${CMAKE_DL_LIBS}" in text else []))]
    for path in system:
        shared = ["-shared", f"-Wl,-soname,{path.name}", "-fno-builtin", _BIONIC / f"{path.stem}.c", "-o", path]
        subprocess.run([*cc, *shared], check=True, env=env)
    listed = re.findall(rf"^        {re.escape(abi)}/(\S+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (cpp / abi).iterdir() if path.suffix in (".c", ".S"))
    own = text.replace("${CMAKE_CURRENT_SOURCE_DIR}", str(cpp))
    flags = re.findall(r"^    (-Wl,\S+)$", own, re.MULTILINE)
    assert len(flags) >= 4
    options = re.search(rf"target_compile_options\({m}_c PRIVATE (.*)\)", text)
    assert options is not None
    (own_sources,) = re.findall(rf"add_library\({m}_c STATIC (.*) \$", text)
    sources = [cpp / "jni.c", *(cpp / name for name in own_sources.split()), *(cpp / abi / name for name in listed)]
    include = [f"-I{_BIONIC}", f"-I{cpp / 'include'}", f"-I{cpp / abi}"]
    out = folder / f"lib{m}.so"
    # as the NDK does: what a processor does not divide, a library in each library does
    end = ["-lcompiler_rt", "-shared", f"-Wl,-soname,{out.name}", *flags, "-o", out]
    subprocess.run([*cc, *options[1].split(), *include, *sources, *system, *end], check=True, env=env)
    return out


def symbols_of(library: Path, system: tuple[str, ...] = ("libc.so",)) -> tuple[set[str], set[str]]:
    """What a library of Android's exports and lacks, once it is one that Android and Google Play take, which wants
    these of the ``system``."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        if elf["e_machine"] == "EM_ARM":  # floats are computed by a unit, and passed in registers of integers
            (about,) = [part for part in elf.get_section_by_name(".ARM.attributes").iter_subsections()]
            found = {one.tag: one.value for part in about.iter_subsubsections() for one in part.iter_attributes()}
            assert found["TAG_FP_ARCH"] == 3
            assert "TAG_ABI_VFP_ARGS" not in found
        assert all(s["p_align"] % PAGE == 0 for s in elf.iter_segments("PT_LOAD"))
        (dynamic,) = [s for s in elf.iter_sections() if isinstance(s, DynamicSection)]
        assert "DT_TEXTREL" not in {tag.entry.d_tag for tag in dynamic.iter_tags()}
        assert [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")] == list(system)
        assert [tag.soname for tag in dynamic.iter_tags("DT_SONAME")] == [library.name]
        symbols = [s for s in elf.get_section_by_name(".dynsym").iter_symbols() if s.name]
        lacks = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF"}
        return {s.name for s in symbols} - lacks, lacks
