/* An OpenCL library between a program and the real one, which lies as LIE says: "kernel=NAME" (that kernel's results are
   off; NAME* is all that begin so), "build=NAME" (it does not compile), "limits" (groups of one item, little memory to
   share), "lost" (the fourth wait finds the device gone), "memory" (no buffer is to be had), "times" (there are no time
   stamps), "buffers" (small ones only), "crash=NAME" (compiling that kernel ends the program), "binary" (no compiled
   program is taken), "apart" (the device has memory of its own), "free" (less memory, as when others have taken some),
   "keeps" (the driver keeps a copy of the host's memory, and never moves it). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct object *object_t;

static unsigned created; /* objects, but for events */

static unsigned copies; /* to the device and from it */

unsigned lying_created(void);
unsigned lying_copies(void);

unsigned lying_copies(void)
{
    return copies;
}

unsigned lying_created(void)
{
    return created;
}

static void *real(const char *name)
{
    static void *library;
    created += strncmp(name, "clCreate", 8) == 0;
    copies += strcmp(name, "clEnqueueWriteBuffer") == 0 || strcmp(name, "clEnqueueReadBuffer") == 0;
    if (library == NULL) {
        library = dlopen(getenv("REAL_OPENCL"), RTLD_NOW | RTLD_LOCAL);
    }
    return library == NULL ? NULL : dlsym(library, name);
}

static const char *lie(const char *kind)
{
    const char *const told = getenv("LIE");
    const size_t length = strlen(kind);
    if (told == NULL || strncmp(told, kind, length) != 0) {
        return NULL;
    }
    return told[length] == '=' ? told + length + 1 : told[length] == '\0' ? "" : NULL;
}

#define FORWARD(type, name, parameters, arguments) \
    type name parameters                           \
    {                                              \
        type(*const to) parameters;                \
        void *const found = real(#name);           \
        memcpy((void *)&to, &found, sizeof to);    \
        return to arguments;                       \
    }
#define REAL(type, name, parameters)     \
    type(*to) parameters;                \
    void *const found = real(name);      \
    memcpy((void *)&to, &found, sizeof to)

FORWARD(int32_t, clGetPlatformIDs, (uint32_t n, object_t *out, uint32_t *count), (n, out, count))
FORWARD(int32_t, clGetDeviceIDs, (object_t p, uint64_t type, uint32_t n, object_t *out, uint32_t *count), (p, type, n, out, count))
FORWARD(object_t, clCreateContext, (const intptr_t *p, uint32_t n, const object_t *d, void (*f)(void), void *u, int32_t *e), (p, n, d, f, u, e))
FORWARD(object_t, clCreateCommandQueue, (object_t c, object_t d, uint64_t p, int32_t *e), (c, d, p, e))
FORWARD(object_t, clCreateProgramWithSource, (object_t c, uint32_t n, const char **t, const size_t *l, int32_t *e), (c, n, t, l, e))
FORWARD(int32_t, clGetProgramBuildInfo, (object_t p, object_t d, uint32_t w, size_t n, void *o, size_t *s), (p, d, w, n, o, s))
FORWARD(int32_t, clGetProgramInfo, (object_t p, uint32_t w, size_t n, void *o, size_t *s), (p, w, n, o, s))
FORWARD(int32_t, clSetKernelArg, (object_t k, uint32_t i, size_t n, const void *v), (k, i, n, v))
FORWARD(int32_t, clEnqueueWriteBuffer, (object_t q, object_t b, uint32_t w, size_t o, size_t n, const void *d, uint32_t c, const object_t *l, object_t *e), (q, b, w, o, n, d, c, l, e))
FORWARD(int32_t, clEnqueueReadBuffer, (object_t q, object_t b, uint32_t w, size_t o, size_t n, void *d, uint32_t c, const object_t *l, object_t *e), (q, b, w, o, n, d, c, l, e))
FORWARD(void *, clEnqueueMapBuffer, (object_t q, object_t b, uint32_t w, uint64_t f, size_t o, size_t n, uint32_t c, const object_t *l, object_t *e, int32_t *r), (q, b, w, f, o, n, c, l, e, r))
FORWARD(int32_t, clEnqueueUnmapMemObject, (object_t q, object_t b, void *p, uint32_t c, const object_t *l, object_t *e), (q, b, p, c, l, e))
FORWARD(int32_t, clFlush, (object_t q), (q))
FORWARD(int32_t, clReleaseEvent, (object_t o), (o))
FORWARD(int32_t, clReleaseProgram, (object_t o), (o))
FORWARD(int32_t, clReleaseMemObject, (object_t o), (o))
FORWARD(int32_t, clReleaseCommandQueue, (object_t o), (o))
FORWARD(int32_t, clReleaseContext, (object_t o), (o))
FORWARD(int32_t, clGetKernelWorkGroupInfo, (object_t k, object_t d, uint32_t w, size_t n, void *o, size_t *s), (k, d, w, n, o, s))

#define MAX 64
static object_t wrong[MAX]; /* the kernels that are off, while there are any */

static object_t *find(object_t kernel)
{
    for (int k = 0; k < MAX; ++k) {
        if (wrong[k] == kernel) {
            return &wrong[k];
        }
    }
    return NULL;
}

int32_t clReleaseKernel(object_t kernel)
{
    REAL(int32_t, "clReleaseKernel", (object_t));
    object_t *const place = find(kernel);
    if (place != NULL) {
        *place = NULL; /* another may be made in its place */
    }
    return to(kernel);
}

object_t clCreateKernel(object_t program, const char *name, int32_t *error)
{
    REAL(object_t, "clCreateKernel", (object_t, const char *, int32_t *));
    const char *const off = lie("kernel");
    const object_t made = to(program, name, error);
    const size_t length = off == NULL ? 0u : strlen(off);
    if (off != NULL && (strcmp(off, name) == 0 || (length > 0u && off[length - 1u] == '*' && strncmp(off, name, length - 1u) == 0))) {
        object_t *const place = find(NULL);
        if (place == NULL) {
            abort();
        }
        *place = made;
    }
    return made;
}

int32_t clBuildProgram(object_t program, uint32_t n, const object_t *devices, const char *options, void (*f)(void), void *u)
{
    REAL(int32_t, "clBuildProgram", (object_t, uint32_t, const object_t *, const char *, void (*)(void), void *));
    const char *const crashing = lie("crash"), *const name = crashing != NULL ? crashing : lie("build");
    if (name != NULL) {
        static char text[1 << 20];
        void *const where = real("clGetProgramInfo");
        int32_t (*info)(object_t, uint32_t, size_t, void *, size_t *);
        memcpy((void *)&info, &where, sizeof info);
        if (info(program, 0x1164u, sizeof text, text, NULL) == 0 && strstr(text, name) != NULL) {
            if (crashing != NULL) {
                abort();
            }
            return -11;
        }
    }
    return to(program, n, devices, options, f, u);
}

object_t clCreateProgramWithBinary(object_t c, uint32_t n, const object_t *d, const size_t *sizes, const uint8_t **data, int32_t *each, int32_t *error)
{
    REAL(object_t, "clCreateProgramWithBinary", (object_t, uint32_t, const object_t *, const size_t *, const uint8_t **, int32_t *, int32_t *));
    if (lie("binary") != NULL) {
        *error = -42;
        return NULL;
    }
    return to(c, n, d, sizes, data, each, error);
}

int32_t clEnqueueNDRangeKernel(object_t q, object_t k, uint32_t dims, const size_t *offset, const size_t *items,
                               const size_t *local, uint32_t n, const object_t *list, object_t *event)
{
    REAL(int32_t, "clEnqueueNDRangeKernel", (object_t, object_t, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, const object_t *, object_t *));
    size_t fewer[3] = {items[0], items[1], items[2]};
    if (k != NULL && find(k) != NULL) {
        fewer[0] = fewer[1] = fewer[2] = 1; /* the first item only */
        local = NULL;
    }
    return to(q, k, dims, offset, fewer, local, n, list, event);
}

int32_t clGetDeviceInfo(object_t d, uint32_t what, size_t n, void *out, size_t *size)
{
    REAL(int32_t, "clGetDeviceInfo", (object_t, uint32_t, size_t, void *, size_t *));
    const int32_t status = to(d, what, n, out, size);
    if (lie("limits") != NULL && out != NULL && what == 0x1004u) {
        *(size_t *)out = 1u;
    }
    if (lie("buffers") != NULL && out != NULL && what == 0x1010u) {
        *(uint64_t *)out = 64u;
    }
    if (lie("free") != NULL && out != NULL && what == 0x101Fu) {
        *(uint64_t *)out -= 1u << 20;
    }
    if (lie("apart") != NULL && out != NULL && what == 0x1035u) {
        *(uint32_t *)out = 0u;
    }
    return status;
}

object_t clCreateBuffer(object_t c, uint64_t flags, size_t n, void *p, int32_t *error)
{
    REAL(object_t, "clCreateBuffer", (object_t, uint64_t, size_t, void *, int32_t *));
    if (lie("memory") != NULL) {
        *error = -4;
        return NULL;
    }
    return to(c, lie("keeps") != NULL && p != NULL ? 1u | 32u : flags, n, p, error);
}

int32_t clFinish(object_t q)
{
    REAL(int32_t, "clFinish", (object_t));
    static int waits;
    const int32_t status = to(q);
    return lie("lost") != NULL && ++waits >= atoi(lie("lost")) ? -36 : status;
}

int32_t clGetEventProfilingInfo(object_t e, uint32_t what, size_t n, void *out, size_t *size)
{
    REAL(int32_t, "clGetEventProfilingInfo", (object_t, uint32_t, size_t, void *, size_t *));
    return lie("times") != NULL ? -7 : to(e, what, n, out, size);
}
