/* What the files of the Cortex-M port share beyond those of every bare-metal port. */
#ifndef SDK_RT_CORTEX_M_PORT_H
#define SDK_RT_CORTEX_M_PORT_H

#include "internal/bare.h"

void sdk_rt_systick_handler(void);
void sdk_rt_fault(const uint32_t *frame, uint32_t cause);

#endif /* SDK_RT_CORTEX_M_PORT_H */
