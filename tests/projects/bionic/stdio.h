/* Of Android's stdio.h, what the runtime of GPUs calls. */
#include <stddef.h>
typedef struct file FILE;
#define SEEK_SET 0
#define SEEK_END 2
int snprintf(char *, size_t, const char *, ...);
FILE *fopen(const char *, const char *);
int fclose(FILE *);
int fseek(FILE *, long, int);
long ftell(FILE *);
size_t fread(void *, size_t, size_t, FILE *);
size_t fwrite(const void *, size_t, size_t, FILE *);
int remove(const char *);
int rename(const char *, const char *);
