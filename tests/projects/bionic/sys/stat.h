/* Not the order of Android's: nothing made with this file runs. */
#include <stdint.h>
typedef int64_t off_t;
struct stat {
    unsigned st_mode;
    off_t st_size;
};
#define S_ISREG(mode) (((mode) & 0170000) == 0100000)
int fstat(int file, struct stat *about);
