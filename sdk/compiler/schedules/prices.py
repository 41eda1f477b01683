"""What each event of a kernel costs on a core, in instructions; benchmarks/cost_model.py --fit writes this file."""

from __future__ import annotations

from typing import Final

__all__ = ["TABLE"]

# the capabilities of the cores that a row is for, and the price of each event by name; the first match wins
TABLE: Final[tuple[tuple[str, str], ...]] = (
    (
        "mve",
        "add 0 addx4 0 and 0 broadcastx16 15 broadcastx4 0.69 call 276.29 cast 0 castx4 0 dotx16 1.52 ge 0 "
        "gtx4 1.47 if 0 load1 0.08 load16 0.27 load4 2.56 loop 5.35 lt 0 max 0.97 maxx16 0 maxx4 2.99 "
        "min 0.97 minx4 2.99 mul 0 mulx4 0 neg 1.2 negx4 5.95 operand16 0.58 rdbpot1 0.97 rdbpot1x4 0.67 "
        "selectx4 1.47 shlx4 0 srdhm30 0.97 srdhm30x4 0.67 store1 1.17 store16 1.47 store4 0.32 tdivx4 1.47 "
        "turn 0 ",
    ),
    (
        "dsp",
        "add 0 and 0.23 bitsx4 0 broadcastx2 0 broadcastx4 0.42 call 103.87 cast 0 dotx2 0.8 dotx4 2.95 "
        "evensx4 0.07 full 0 ge 0.68 gt 0 if 0.86 inner 0.06 inner_jump 1.48 inner_turn 0 load1 1.54 "
        "load2 1.27 load4 1.2 loop 0 lt 0.39 mac_lanex4 0 mac_pairx2 0.39 max 0.29 min 2.99 mul 0 neg 4.65 "
        "oddsx4 3.69 operand4 1.08 over 8.98 pointer 0.57 rdbpot22 1.74 select 0 shl 0 shr 0 srdhm30 1.74 "
        "store1 2.48 store2 0.82 store4 0.61 sub 0 tdiv 0 turn 0 ",
    ),
    (
        "rvm",
        "add 0 and 0 broadcastx4 0 call 190.43 cast 0.3 ge 1.96 gt 0 if 0 load1 0.85 load4 6.19 loop 0 lt 0 "
        "max 1.88 min 4.28 mul 1.93 neg 0 rdbpot1 4.98 select 2.04 shl 1.7 srdhm30 4.98 store1 0 store4 5.32 "
        "tdiv 0 turn 2.82 ",
    ),
    (
        "thumb2",
        "add 0 and 0 broadcastx4 0 call 233.41 cast 0 ge 5.14 gt 0 if 0.3 load1 0.48 load4 3.64 loop 0 lt 0 "
        "max 3.64 min 0 mul 1.77 neg 10.72 rdbpot1 0.9 select 0 shl 9.29 srdhm30 0.9 store1 0 store4 0 "
        "tdiv 0 turn 0.77 ",
    ),
)
