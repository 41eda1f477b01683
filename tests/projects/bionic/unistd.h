/* Not the order of Android's: nothing made with this file runs. */
#include <stdint.h>
#define SEEK_END 2
typedef int64_t off_t;
off_t lseek(int file, off_t offset, int from);
int close(int file);
long sysconf(int name);
#define _SC_PAGESIZE 0x0027
