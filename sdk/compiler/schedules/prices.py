"""What each event of a kernel costs on a core, in instructions; benchmarks/cost_model.py --fit writes this file."""

from __future__ import annotations

from typing import Final

__all__ = ["TABLE"]

# the capabilities of the cores that a row is for, and the price of each event by name; the first match wins
TABLE: Final[tuple[tuple[str, str], ...]] = (
    (
        "mve",
        "add 0.22 addx4 2.31 and 0.04 broadcastx16 1.72 broadcastx4 0 call 0 cast 0 castx4 0 dotx16 2.07 "
        "full13 0 ge 0 gtx4 1.63 if 0.03 inner 0 inner_jump 0.32 inner_turn 0 load1 0 load16 0.62 load4 0 "
        "loop 6.58 lt 0.95 max 4.29 maxx4 5.17 min 4.29 minx4 5.17 mul 0 mulx4 1.47 neg 2.91 negx4 0 "
        "operand16 0 over13 0 pointer 0 rdbpot22 4.29 rdbpot22x4 0.85 select 1.05 selectx4 1.63 shlx4 0 "
        "srdhm30 4.29 srdhm30x4 0.85 store1 1.48 store16 0.45 store4 0.1 tdivx4 1.63 turn 0.67 ",
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
        "add 0.33 and 0 broadcastx4 2.63 call 99.61 cast 1.11 full13 0 ge 0 gt 0.36 if 0 inner 0 "
        "inner_jump 0 inner_turn 2.8 load1 0 load4 0.86 loop 0 lt 0 max 0.2 min 8.66 mul 1.58 neg 0 over13 0 "
        "pointer 0 rdbpot22 4.72 select 0 shl 0 srdhm30 4.72 store1 0 store4 10.17 tdiv 0.36 turn 0 ",
    ),
    (
        "thumb2",
        "add 1.27 and 0.32 broadcastx4 0 call 0 cast 0.71 full13 0 ge 1.09 gt 1.89 if 2.96 inner 0 "
        "inner_jump 0.26 inner_turn 0.1 load1 0.28 load4 0.82 loop 1 lt 0.31 max 2.66 min 2.27 mul 0 neg 0 "
        "over13 1.3 pointer 0 rdbpot22 2.13 select 0 shl 0.87 srdhm30 2.13 store1 1.06 store4 0 tdiv 1.88 "
        "turn 0 ",
    ),
)
