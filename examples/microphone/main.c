/* Hears the keys of a telephone: a microphone fills a buffer block by block, the model listens to each 50 ms of it. */
#include <math.h>
#include <stdio.h>

#include "dtmf.h"

#define RATE_HZ 8000
#define BLOCK 80    /* samples that the microphone hands over at a time, 10 ms */
#define LOUD 0.001f /* of the loudest tone that there can be */

static const float pi = 3.14159265f;
static const char keys[4][5] = {"123A", "456B", "789C", "*0#D"};
static const float row_hz[4] = {697, 770, 852, 941};
static const float column_hz[4] = {1209, 1336, 1477, 1633};

/* What the microphone would hear: each key of the number for 100 ms, then silence for 100 ms. */
static const char dialled[] = "159D*0#";
static int16_t microphone(unsigned sample)
{
    static uint32_t noise = 1;
    unsigned key = sample / (RATE_HZ / 5);
    float sound = 0;
    noise = noise * 1664525u + 1013904223u;
    if (key < sizeof dialled - 1 && sample % (RATE_HZ / 5) < RATE_HZ / 10) {
        for (int row = 0; row < 4; ++row) {
            for (int column = 0; column < 4; ++column) {
                if (keys[row][column] == dialled[key]) {
                    float t = 2 * pi * (float)sample / RATE_HZ;
                    sound = sinf(t * row_hz[row]) + sinf(t * column_hz[column]);
                }
            }
        }
    }
    return (int16_t)(5000 * sound + (float)(noise >> 24) - 128);
}

/* The memory of the model, and the buffer: a block goes in at the end, the oldest one leaves. */
static uint8_t arena[DTMF_ARENA_BYTES] __attribute__((aligned(DTMF_ARENA_ALIGN)));
static int16_t heard[DTMF_IN_SAMPLES_ELEMENTS];
static dtmf_t model;

static void take_block(unsigned first)
{
    const unsigned kept = DTMF_IN_SAMPLES_ELEMENTS - BLOCK;
    for (unsigned i = 0; i < kept; ++i) {
        heard[i] = heard[i + BLOCK];
    }
    for (unsigned i = 0; i < BLOCK; ++i) {
        heard[kept + i] = microphone(first + i);
    }
}

static int loudest(const float *power)
{
    int best = 0;
    for (int i = 1; i < 4; ++i) {
        best = power[i] > power[best] ? i : best;
    }
    return best;
}

/* The key that sounds, 0 for none: both of its tones are loud, and a tenth of that is louder than any other tone. */
static char key_of(const float *power)
{
    int row = loudest(power), column = loudest(power + 4);
    for (int i = 0; i < 8; ++i) {
        int own = i == row || i == 4 + column;
        if (own ? power[i] < LOUD : power[i] > power[row] / 10 || power[i] > power[4 + column] / 10) {
            return 0;
        }
    }
    return keys[row][column];
}

int main(void)
{
    char last = 0;
    if (dtmf_init(&model, arena, sizeof arena, NULL, 0) != DTMF_OK) {
        return 1;
    }
    for (unsigned sample = 0; sample < sizeof dialled * RATE_HZ / 5; sample += BLOCK) {
        float power[DTMF_OUT_POWER_ELEMENTS];
        char key;
        take_block(sample);
        if (dtmf_run(&model, &(dtmf_in){heard}, &(dtmf_out){power}) != DTMF_OK) {
            return 1;
        }
        key = key_of(power);
        if (key != last && key != 0) {
            printf("%4u ms: %c\n", (sample + BLOCK) * 1000 / RATE_HZ, key);
        }
        last = key;
    }
    return 0;
}
