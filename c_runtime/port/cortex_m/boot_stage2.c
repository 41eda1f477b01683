/*
 * What the RP2040's ROM copies from the first 256 bytes of flash to RAM and runs there (RP2040 Datasheet, 2.8.1.3 and 4.10): it
 * lets the core execute from flash, read with the command 03h that every chip has, and starts the image behind it. The build
 * puts the checksum into the last word.
 */
#include "internal/cortex_m.h"

void sdk_rt_boot(void);

__attribute__((naked, used, section(".boot"))) void sdk_rt_boot(void)
{
    __asm__ volatile("ldr r3, =0x18000000\n\t" /* XIP_SSI */
                     "movs r1, #0\n\t"
                     "str r1, [r3, #0x08]\n\t" /* SSIENR: off while it is set up */
                     "str r1, [r3, #0x04]\n\t" /* CTRLR1: one frame a read */
                     "movs r1, #4\n\t"
                     "str r1, [r3, #0x14]\n\t" /* BAUDR: at most 33 MHz */
                     "ldr r1, =0x001F0300\n\t"
                     "str r1, [r3, #0x00]\n\t" /* CTRLR0: frames of 32 bits, read after a command, one wire */
                     "ldr r1, =0x03000218\n\t"
                     "ldr r2, =0x180000F4\n\t"
                     "str r1, [r2]\n\t" /* SPI_CTRLR0: command 03h of 8 bits, address of 24 */
                     "movs r1, #1\n\t"
                     "str r1, [r3, #0x08]\n\t"
                     "ldr r0, =0x10000100\n\t" /* the vectors, behind this */
                     "ldr r1, =0xE000ED08\n\t" /* VTOR */
                     "str r0, [r1]\n\t"
                     "ldmia r0, {r0, r1}\n\t"
                     "msr msp, r0\n\t"
                     "bx r1\n\t"
                     ".balign 4\n\t"
                     ".ltorg\n\t"
                     ".org 252\n\t"
                     ".word 0");
}
