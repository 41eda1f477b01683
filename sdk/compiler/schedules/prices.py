"""What each event of a kernel costs on a core, in instructions; benchmarks/cost_model.py --fit writes this file."""

from __future__ import annotations

from typing import Final

__all__ = ["TABLE"]

# the capabilities of the cores that a row is for, and the price of each event by name; the first match wins
TABLE: Final[tuple[tuple[str, str], ...]] = (
    (
        "mve",
        "add 0.22 addx4 1.62 and 0 broadcastx16 0 broadcastx4 0.14 call 20.63 cast 0 castx4 0 dotx16 2.21 "
        "ge 4.94 gtx4 0.7 if 3.91 inner 2.82 inner_jump 0 inner_turn 0 load1 0 load16 0.45 load4 0 loop 4.26 "
        "lt 0 max 2.54 maxx4 1.86 min 2.54 minx4 1.86 mul 0.02 mulx4 2.56 neg 2.25 negx4 0.19 operand16 0 "
        "pointer 1.12 rdbpot22 2.54 rdbpot22x4 1.63 select 0.06 selectx4 0.7 shlx4 0.78 srdhm30 2.54 "
        "srdhm30x4 1.64 store1 0.32 store16 2.16 store4 0.83 tdivx4 0.7 turn 4.93 ",
    ),
    (
        "dsp",
        "add 0 and 0 bitsx4 0 broadcastx2 0 broadcastx4 0 call 32.35 cast 0 dotx2 0.99 dotx4 4.45 "
        "evensx4 0.39 full13 3.04 ge 2.25 gt 6.02 if 0.99 inner 0 inner_jump 0 inner_turn 0 load1 1.62 "
        "load2 2.05 load4 1.01 loop 12.15 lt 1.83 mac_high 0 mac_lanex4 2.42 mac_pairx2 1.08 max 7.01 min 0 "
        "mul 0 neg 6.02 oddsx4 2.29 operand4 0 over13 3.04 pointer 0 rdbpot22 1.53 select 6.66 shl 0 shr 0 "
        "srdhm30 1.53 store1 0.6 store2 0.49 store4 0 sub 0.14 tdiv 6.02 turn 3.47 ",
    ),
    (
        "rvm",
        "add 1.65 and 0.18 broadcastx4 2.57 call 33.22 cast 0.11 full13 0 full22 4.83 ge 1.63 gt 0.87 "
        "if 0.87 inner 0 inner_jump 0 inner_turn 3.14 load1 0.8 load4 1.13 loop 3.69 lt 0 max 5.05 min 2.08 "
        "mul 0.38 neg 0 over13 0.12 over22 8.67 pointer 0 rdbpot22 3.21 select 1.31 shl 2.1 srdhm30 3.21 "
        "store1 1.81 store4 14.33 tdiv 0.87 turn 7.8 ",
    ),
    (
        "thumb2",
        "add 2.02 and 0 broadcastx4 0 call 46.22 cast 0 full13 0 ge 0 gt 2.44 if 3.21 inner 4.95 "
        "inner_jump 0 inner_turn 2.19 load1 0.32 load4 2.44 loop 1.92 lt 2.23 max 4.43 min 0 mul 0 neg 1.64 "
        "over13 0 pointer 5.62 rdbpot22 0.34 select 0 shl 4.53 srdhm30 0.34 store1 1.67 store4 0.52 "
        "tdiv 2.44 turn 2.05 ",
    ),
)
