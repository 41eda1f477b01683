/* The image as a program of Linux: runs every request that it reads and writes the results. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t drive(const int32_t *words, const uint8_t *in, uint8_t *out);

static void *allocated(size_t bytes)
{
    void *const found = malloc(bytes + 1);
    if (found == NULL) {
        exit(2);
    }
    return found;
}

static void *taken(size_t bytes)
{
    void *const found = allocated(bytes);
    if (fread(found, 1, bytes, stdin) != bytes) {
        exit(3);
    }
    return found;
}

int main(void)
{
    int32_t left = 0;
    if (fread(&left, sizeof left, 1, stdin) != 1) {
        return 3;
    }
    for (; left > 0; --left) {
        int32_t *const sizes = taken(3 * sizeof *sizes);
        int32_t *const words = taken((size_t)sizes[0]);
        uint8_t *const in = taken((size_t)sizes[1]);
        uint8_t *const out = allocated((size_t)sizes[2]);
        memset(out, 0, (size_t)sizes[2]);
        const int32_t status = drive(words, in, out);
        fwrite(&status, sizeof status, 1, stdout);
        fwrite(out, 1, (size_t)sizes[2], stdout);
        fflush(stdout);
        free(sizes);
        free(words);
        free(in);
        free(out);
    }
    return 0;
}
