/* Sees where something moves: a camera fills a frame buffer, the model tells which blocks of it have changed. */
#include <stdio.h>

#include "motion.h"

#define ROWS 48
#define COLUMNS 64
#define BLOCK 8
#define MOVED 4.0f /* mean change of a block, of 255 */

/* The memory of the model, which has the frame before this one in its state, and the buffer that the camera fills. */
static uint8_t arena[MOTION_ARENA_BYTES] __attribute__((aligned(MOTION_ARENA_ALIGN)));
static uint8_t state[MOTION_STATE_BYTES] __attribute__((aligned(MOTION_STATE_ALIGN)));
static uint8_t frame[ROWS][COLUMNS];
static motion_t model;

/* What the camera would see: a bright square on its way through a dim, noisy room. */
static void camera(int number)
{
    static uint32_t noise = 1;
    const int top = 8, left = 8 * number;
    for (int row = 0; row < ROWS; ++row) {
        for (int column = 0; column < COLUMNS; ++column) {
            int square = row >= top && row < top + 16 && column >= left && column < left + 16;
            noise = noise * 1664525u + 1013904223u;
            frame[row][column] = (uint8_t)((square ? 200 : 40 + row) + (int)(noise >> 30));
        }
    }
}

int main(void)
{
    if (motion_init(&model, arena, sizeof arena, state, sizeof state) != MOTION_OK) {
        return 1;
    }
    for (int number = 0; number < 4; ++number) {
        float motion[ROWS / BLOCK][COLUMNS / BLOCK];
        camera(number);
        if (motion_run(&model, &(motion_in){&frame[0][0]}, &(motion_out){&motion[0][0]}) != MOTION_OK) {
            return 1;
        }
        if (number == 0) {
            continue; /* there is no frame before the first */
        }
        printf("frame %d\n", number);
        for (int row = 0; row < ROWS / BLOCK; ++row) {
            for (int column = 0; column < COLUMNS / BLOCK; ++column) {
                putchar(motion[row][column] > MOVED ? '#' : '.');
            }
            putchar('\n');
        }
    }
    return 0;
}
