/* The agent answers wire v1 requests about the linked models. One static instance is in the port's main. */
#ifndef SDK_RT_AGENT_H
#define SDK_RT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "sdk_rt_port.h"
#include "sdk_rt_wire.h"

/* Largest decoded frame in bytes, header and CRC included, in either direction. */
#ifndef SDK_RT_FRAME_MAX
#define SDK_RT_FRAME_MAX 512u
#endif
#if SDK_RT_FRAME_MAX < 256u
#error "SDK_RT_FRAME_MAX must be at least 256: descriptions of models must fit one frame"
#endif

#define SDK_RT_MAX_DIMS 16u  /* dims of one model */
#define SDK_RT_MAX_NDIM 8u   /* axes of one tensor */
#define SDK_RT_MAX_TEXT 64u  /* names and hashes on the wire; longer ones are cut */

typedef struct {
    sdk_rt_decoder_t rx;
    uint32_t nonce, peer_max; /* of the session: its HELLO's nonce, the host's largest frame */
    uint32_t tx_len;          /* encoded bytes of the last response, kept to be sent again */
    uint32_t frames, damaged, overlong;
    int32_t detail;           /* of the error that a handler returns */
    int32_t last_error;       /* last status other than 0 that a model returned */
    sdk_rt_crash_t crash;     /* of the previous boot, reported until the first request */
    uint32_t baud;            /* that its answer promises, 0: none */
    uint16_t session, id, op; /* of the request in work or last answered */
    uint8_t lost;             /* damaged pieces in a row */
    bool open, answered, crashed;
    bool changed;    /* the link is at another rate than at start */
    bool taken_over; /* a frame that came during a series of runs ended it and is done next */
    uint8_t rx_buf[SDK_RT_FRAME_MAX];
    uint8_t tx_buf[SDK_RT_WIRE_ENCODED(SDK_RT_FRAME_MAX)];
} sdk_rt_agent_t;

/* Prepare the agent and initialise every model. crash: the record of the previous boot, or NULL. */
void sdk_rt_agent_init(sdk_rt_agent_t *a, const sdk_rt_crash_t *crash);

/* Take one byte from the link; answers through the port before it returns. */
void sdk_rt_agent_feed(sdk_rt_agent_t *a, uint8_t byte);

/* Report a crash at once, in answer to the request in work. Uses no state that a crash can have harmed. */
void sdk_rt_agent_report_crash(const sdk_rt_agent_t *a, const sdk_rt_crash_t *crash);

#endif /* SDK_RT_AGENT_H */
