/*
 * What the ROM of i.MX RT1050 and RT1060 looks for in flash (i.MX RT1060 RM, 9.6 and 9.7): how the flash is read, then where the
 * image is. The flash is read with the command 03h over one wire, which every chip has.
 */
#include "internal/cortex_m.h"

#define FLASH 0x60000000u
#define TABLE_AT 0x1000u
#define READ_COMMAND 0x08180403u /* of a sequence: command 03h, then 24 bits of address, on one wire */
#define READ_DATA 0x00002404u    /* then data, until enough is read */
#define IMAGE_VECTORS 0x412000D1u /* tag D1h, 32 bytes, version 4.1 */

extern const uint32_t sdk_rt_vectors[];
extern const uint8_t sdk_rt_image_end[];

typedef union {
    uint32_t word;
    const uint32_t *vectors;
    const uint8_t *end;
} word_t;

/* The flash's configuration: offsets in words of 32 bits. */
__attribute__((section(".boot"), used)) static const word_t boot[TABLE_AT / 4u + 11u] = {
    [0x000 / 4] = {0x42464346u},       /* its tag */
    [0x004 / 4] = {0x56010400u},       /* version 1.4.0 */
    [0x00C / 4] = {0x00030300u},       /* sampled by an internal loop back; hold and setup times 3 */
    [0x044 / 4] = {0x00010101u},       /* serial NOR, one wire, 30 MHz */
    [0x050 / 4] = {SDK_RT_FLASH_BYTES},
    [0x080 / 4] = {READ_COMMAND}, {READ_DATA},
    [0x1C0 / 4] = {256u}, {4096u},     /* bytes of a page, of a sector */
    [TABLE_AT / 4] = {IMAGE_VECTORS},
    {.vectors = sdk_rt_vectors}, {0}, {0},
    {FLASH + TABLE_AT + 0x20u},        /* the boot data, behind the table */
    {FLASH + TABLE_AT}, {0}, {0},
    {FLASH}, {SDK_RT_FLASH_BYTES}, {0}, /* where the image begins, its room, no plug-in */
};
