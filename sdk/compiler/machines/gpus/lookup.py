import os
from sdk.compiler.machines.gpus.gpu import Gpu
from sdk.compiler.schedules.gpu.tiles import Tile

def gpu_for(name):
    g=os.environ.get("GT")
    v=[int(x) for x in (g or "4,4,1,1").split(",")]
    t=Tile(*v)
    return Gpu(name, {"contraction":t,"window":Tile(*[int(x) for x in os.environ.get("GW","4,4,1,1").split(",")])})
