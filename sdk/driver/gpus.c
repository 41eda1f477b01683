/* Lists the GPUs of one interface, a line each with tabs between what is told of it. A program of its own, for drivers may
   crash. */
#include "sdk_rt_gpu.h"

#include <stdio.h>

#define MAX_DEVICES 16

int main(void)
{
    static sdk_gpu_device_t devices[MAX_DEVICES];
    static sdk_gpu_limits_t limits[MAX_DEVICES];
    char message[512] = "";
    uint32_t count = 0u;
    if (SDK_LIST(devices, limits, MAX_DEVICES, &count, message) != SDK_GPU_OK) {
        printf("%s\n", message);
        return 1;
    }
    for (uint32_t k = 0; k < count && k < MAX_DEVICES; ++k) {
        printf("%s\t%s\t%d\t%lu\t%lu\t%lu\t%lu\t%d\n", devices[k].name, devices[k].driver, devices[k].software,
               (unsigned long)(limits[k].memory_bytes >> 20), (unsigned long)(limits[k].buffer_bytes >> 20),
               (unsigned long)limits[k].group_items, (unsigned long)(limits[k].local_bytes >> 10),
               limits[k].shared_memory);
    }
    return 0;
}
