"""What each event of a kernel costs on a core, in instructions; benchmarks/cost_model.py --fit writes this file."""

from __future__ import annotations

from typing import Final

__all__ = ["TABLE"]

# the capabilities of the cores that a row is for, and the price of each event by name; the first match wins
TABLE: Final[tuple[tuple[str, str], ...]] = (
    (
        "mve",
        "add 0.05 addx4 1.26 and 0.45 broadcastx16 0 broadcastx4 0 call 33.58 cast 0 castx4 0 dotx16 2.66 "
        "full13 3.07 ge 0.03 gtx4 0.66 if 0.57 inner 0 inner_jump 0 inner_turn 0.19 load1 0 load16 0 "
        "load4 0.69 loop 6.53 lt 0.94 max 3.56 maxx4 0.62 min 3.56 minx4 0.62 mul 0 mulx4 1.5 neg 3.22 "
        "negx4 0.96 operand16 0 over13 0 pointer 0 rdbpot22 3.56 rdbpot22x4 1.85 select 0.94 selectx4 0.66 "
        "shlx4 2.23 srdhm30 3.56 srdhm30x4 1.85 store1 0.58 store16 5.71 store4 1.4 tdivx4 0.66 turn 2.63 ",
    ),
    (
        "dsp",
        "add 0.26 and 1.35 bitsx4 0 broadcastx2 0.2 broadcastx4 0 call 15.66 cast 0 dotx2 0.99 dotx4 4.54 "
        "evensx4 0.54 full13 0 ge 0.07 gt 4.8 if 0.11 inner 1.18 inner_jump 0 inner_turn 0.37 load1 1.31 "
        "load2 1.91 load4 0.92 loop 13.04 lt 1.81 mac_high 0 mac_lanex4 2.43 mac_pairx2 1.02 max 6 min 0 "
        "mul 0 neg 4.8 oddsx4 2.5 operand4 0 over13 7.63 pointer 0 rdbpot22 1.28 select 5.23 shl 0 shr 0 "
        "srdhm30 1.28 store1 2.3 store2 0.71 store4 0.02 sub 0 tdiv 4.8 turn 3.06 ",
    ),
    (
        "rvm",
        "add 0.34 and 0 broadcastx4 1.52 call 14.3 cast 1.05 full13 0 full22 5.03 ge 0 gt 0.18 if 0.56 "
        "inner 0 inner_jump 0 inner_turn 2.69 load1 0 load4 0.85 loop 0 lt 0 max 0.48 min 7.25 mul 1.66 "
        "neg 0 over13 0 over22 9.07 pointer 0 rdbpot22 4.91 select 0 shl 0 srdhm30 4.91 store1 0 "
        "store4 12.54 tdiv 0.18 turn 0 ",
    ),
    (
        "thumb2",
        "add 1.34 and 0.13 broadcastx4 0 call 0 cast 0.52 full13 0 ge 0.49 gt 1.98 if 1.13 inner 0 "
        "inner_jump 0 inner_turn 0.13 load1 0.43 load4 1.83 loop 0 lt 0.48 max 2.78 min 0.47 mul 0 neg 0 "
        "over13 1.31 pointer 0 rdbpot22 1.89 select 1.54 shl 2.43 srdhm30 1.89 store1 1.47 store4 0 "
        "tdiv 1.98 turn 0 ",
    ),
)
