/* A firmware of one's own around a generated model: no runtime, no operating system, no heap. */
#include "digits.h"

#define ROWS 8
#define COLUMNS 8

static const char ink[] = " .:-=+*#%@"; /* from none to full */
static const char drawing[ROWS][COLUMNS + 1] = {
    "  +%*.  ",
    "  *:*-  ",
    "   .#-  ",
    "   %@.  ",
    "   :+%. ",
    " ..  += ",
    " :#-:*+ ",
    "  =%@%. ",
};

/* All the memory that the model needs, known when it was generated: it is in the map file, not in a heap. */
static uint8_t arena[DIGITS_ARENA_BYTES] __attribute__((aligned(DIGITS_ARENA_ALIGN)));
static digits_t model;

/* Semihosting: a debugger or an emulator carries it out. A product would write to its UART here. */
static int semihosting(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void print(const char *text)
{
    (void)semihosting(0x04, text); /* SYS_WRITE0 */
}

static void draw(int8_t *image)
{
    for (int row = 0; row < ROWS; ++row) {
        for (int column = 0; column < COLUMNS; ++column) {
            int level = 0;
            while (ink[level] != drawing[row][column]) {
                ++level;
            }
            /* The header says scale 1/255, zero point -128: -128 is white, 127 black. */
            image[COLUMNS * row + column] = (int8_t)(level * 255 / 9 + DIGITS_IN_IMAGE_ZERO_POINT);
        }
    }
}

static int likeliest(const int8_t *scores)
{
    int best = 0;
    for (int digit = 1; digit < (int)DIGITS_OUT_DIGIT_ELEMENTS; ++digit) {
        if (scores[digit] > scores[best]) {
            best = digit;
        }
    }
    return best;
}

int main(void)
{
    int status = digits_init(&model, arena, sizeof arena, NULL, 0);
    if (status == DIGITS_OK) {
        draw(digits_in_image(&model)); /* the input lies in the arena: write it before each run */
        status = digits_run(&model);
    }
    if (status == DIGITS_OK) {
        char answer[] = "this is a ?\n";
        answer[sizeof answer - 3] = (char)('0' + likeliest(digits_out_digit(&model)));
        print(answer);
    } else {
        print("the model failed\n");
    }
    (void)semihosting(0x18, (const void *)0x20026u); /* SYS_EXIT, "the application ended" */
    for (;;) {
    }
}
