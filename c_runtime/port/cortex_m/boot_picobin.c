/*
 * The block by which the RP2350's ROM knows an image (RP2350 Datasheet, 5.9): an executable for the Arm cores, in secure state,
 * and where its vectors are. It is to lie in the first 4 KiB; the loop of blocks is this one alone.
 */
#include "internal/cortex_m.h"

#define BLOCK_BEGINS 0xFFFFDED3u
#define BLOCK_ENDS 0xAB123579u
#define IMAGE_TYPE 0x10210142u   /* item 42h of one word: executable, secure, Arm, RP2350 */
#define VECTOR_TABLE 0x00000203u /* item 03h of two words */
#define LAST_OF_3_WORDS 0x000003FFu

extern const uint32_t sdk_rt_vectors[];

typedef union {
    uint32_t word;
    const uint32_t *address;
} word_t;

__attribute__((section(".boot"), used)) static const word_t image_definition[] = {
    {BLOCK_BEGINS}, {IMAGE_TYPE}, {VECTOR_TABLE}, {.address = sdk_rt_vectors}, {LAST_OF_3_WORDS}, {0}, {BLOCK_ENDS},
};
