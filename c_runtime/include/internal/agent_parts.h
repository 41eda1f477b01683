/* What the two halves of the agent share: agent.c keeps sessions, agent_ops.c executes requests. */
#ifndef SDK_RT_AGENT_PARTS_H
#define SDK_RT_AGENT_PARTS_H

#include "sdk_rt_agent.h"

#define SDK_RT_SMALL_MAX 40u /* payload of frames built on the stack */

/*
 * Execute one request; the answer's payload goes to out, which has room for the largest frame's.
 * Returns its bytes, or minus an error code with the detail in a->detail.
 */
int32_t sdk_rt_dispatch(sdk_rt_agent_t *a, uint16_t op, const uint8_t *payload, uint32_t n, uint8_t *out);

/* Send a frame with at most SDK_RT_SMALL_MAX bytes of payload; the response kept for repeats stays kept. */
void sdk_rt_send_small(uint8_t kind, uint16_t session, uint16_t id, uint16_t op, const uint8_t *payload,
                       uint32_t n);

/*
 * Between the runs of a series: whether the host has sent something that takes its place. To be done next, it then lies
 * where the request was. What repeats the request is dropped.
 */
bool sdk_rt_called_off(sdk_rt_agent_t *a);

/* Write a text as its length and its bytes, cut to SDK_RT_MAX_TEXT; returns the bytes written. */
uint32_t sdk_rt_put_text(uint8_t *p, const char *text);

#endif /* SDK_RT_AGENT_PARTS_H */
