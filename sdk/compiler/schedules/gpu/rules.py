from sdk.compiler.analysis.pattern import classify
from sdk.compiler.schedules.gpu.tiles import tiled
from sdk.compiler.schedules.locate import ScheduleError


def item_of(loops, chain, inner, gpu, aligned):
    kind=classify(loops).kind
    if kind not in gpu.tiles:
        raise ScheduleError("none")
    return tiled(loops, chain, inner, gpu.tiles[kind], aligned)
