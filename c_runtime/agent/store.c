/* Programs by the hash of their contents, uploads that were begun, a folder for each run. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent.h"

#define PART ".part"
#define DEPTH 64

void ag_hex(const uint8_t *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; ++i) {
        out[2u * i] = digits[bytes[i] >> 4];
        out[2u * i + 1u] = digits[bytes[i] & 15u];
    }
    out[2u * n] = '\0';
}

static void part_of(const char *name, char part[AG_NAME + sizeof PART])
{
    (void)snprintf(part, AG_NAME + sizeof PART, "%.64s" PART, name);
}

/* A folder for this user alone, made where it is not there. */
static int private_folder(const char *path, ag_refusal_t *refusal)
{
    struct stat found;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        (void)ag_refuse(refusal, AG_PLACE, "cannot make the agent's folder %s: %s", path, strerror(errno));
        return -1;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &found) != 0 || found.st_uid != geteuid() || (found.st_mode & 077u) != 0) {
        (void)ag_refuse(refusal, AG_PLACE,
                        "the agent's folder %s is not safe: it must be yours, no link, and closed to others", path);
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

static void remove_deep(int at, const char *name, int depth)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        if (fd >= 0) {
            close(fd);
        }
    } else {
        (void)fchmod(fd, 0700);
        for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
                continue;
            }
            if (unlinkat(fd, entry->d_name, 0) != 0 && depth < DEPTH) {
                remove_deep(fd, entry->d_name, depth + 1);
            }
        }
        closedir(folder);
    }
    (void)unlinkat(at, name, AT_REMOVEDIR);
}

void ag_remove_tree(int at, const char *name)
{
    remove_deep(at, name, 0);
}

/* Runs of agents that were killed: those that live hold a lock on their folders. */
static void remove_left(int runs)
{
    int again = openat(runs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again < 0 ? NULL : fdopendir(again);
    if (folder == NULL) {
        return;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int fd = entry->d_name[0] == '.' ? -1 : openat(runs, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0) {
            if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
                ag_remove_tree(runs, entry->d_name);
            }
            close(fd);
        }
    }
    closedir(folder);
}

bool ag_store_open(ag_store_t *store, ag_refusal_t *refusal)
{
    char path[4096];
    int root = private_folder(store->root, refusal);
    if (root < 0) {
        return false;
    }
    close(root);
    if (strlen(store->root) > sizeof path - 80u) {
        return ag_refuse(refusal, AG_PLACE, "the path of the agent's folder is too long");
    }
    (void)snprintf(path, sizeof path, "%s/programs", store->root);
    store->programs = private_folder(path, refusal);
    if (store->programs < 0) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/runs", store->root);
    store->runs = private_folder(path, refusal);
    if (store->runs < 0) {
        return false;
    }
    remove_left(store->runs);
    return true;
}

/* Whether a program is there: 1, 0, or -1 where what is there is none of ours. size 0: of any. */
static int has(ag_store_t *store, const char *name, uint64_t size, ag_refusal_t *refusal)
{
    struct stat found;
    if (fstatat(store->programs, name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
        return 0;
    }
    if (S_ISREG(found.st_mode) && (size == 0 || (uint64_t)found.st_size == size)) {
        return 1;
    }
    (void)ag_refuse(refusal, AG_REQUEST, "a program of this hash has another size");
    return -1;
}

static bool is_name(const char *name)
{
    size_t n = strspn(name, "0123456789abcdef");
    return n == 64 && (name[64] == '\0' || strcmp(name + 64, PART) == 0);
}

/* What is in the folder; the oldest of what may go. */
typedef struct {
    uint64_t held;
    char oldest[AG_NAME + sizeof PART];
    struct timespec when;
    uint64_t size;
} census_t;

static bool older(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

static bool count(ag_store_t *store, const char *wanted, ag_in_use_t in_use, void *owner, census_t *census,
                  ag_refusal_t *refusal)
{
    memset(census, 0, sizeof *census);
    int again = openat(store->programs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again < 0 ? NULL : fdopendir(again);
    if (folder == NULL) {
        return ag_refuse(refusal, AG_ROOM, "the agent cannot look into its folder: %s", strerror(errno));
    }
    bool good = true;
    for (struct dirent *entry; good && (entry = readdir(folder)) != NULL;) {
        struct stat found;
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            fstatat(store->programs, name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        if (!is_name(name) || !S_ISREG(found.st_mode)) {
            good = ag_refuse(refusal, AG_PLACE, "the agent's folder has something in it that is not the agent's");
        } else if (strncmp(name, wanted, 64) != 0) {
            char base[AG_NAME];
            uint64_t announced = 0, size = (uint64_t)found.st_size;
            (void)snprintf(base, sizeof base, "%.64s", name);
            bool stays = in_use(owner, base, &announced);
            census->held += announced > size ? announced : size;
            if (!stays && (census->oldest[0] == '\0' || older(found.st_mtim, census->when))) {
                (void)snprintf(census->oldest, sizeof census->oldest, "%.69s", name);
                census->when = found.st_mtim;
                census->size = size;
            }
        }
    }
    closedir(folder);
    return good;
}

/* Whether the disk takes what is to come of a program of which a part may be there; how much it takes. */
static bool fits_disk(ag_store_t *store, const char *name, uint64_t size, uint64_t *room)
{
    char part[AG_NAME + sizeof PART];
    struct stat found;
    struct statvfs disk;
    part_of(name, part);
    bool begun = fstatat(store->programs, part, &found, AT_SYMLINK_NOFOLLOW) == 0 && (uint64_t)found.st_size < size;
    bool known = fstatvfs(store->programs, &disk) == 0;
    *room = known ? (uint64_t)disk.f_bavail * disk.f_frsize : UINT64_MAX;
    return *room >= (begun ? size - (uint64_t)found.st_size : size);
}

/* Delete what was used longest ago until size bytes more are within the quota, and fit on the disk. */
static bool make_room(ag_store_t *store, const char *wanted, uint64_t size, ag_in_use_t in_use, void *owner,
                      ag_refusal_t *refusal)
{
    for (;;) {
        census_t census;
        if (!count(store, wanted, in_use, owner, &census, refusal)) {
            return false;
        }
        uint64_t room = 0;
        bool allowed = size <= store->quota && census.held <= store->quota - size;
        bool fits = fits_disk(store, wanted, size, &room);
        if (allowed && fits) {
            return true;
        }
        if (allowed && census.oldest[0] == '\0') {
            return ag_refuse(refusal, AG_ROOM, "its disk has %llu bytes free, and up to %llu are to come",
                             (unsigned long long)room, (unsigned long long)size);
        }
        if (size > store->quota || census.oldest[0] == '\0' ||
            unlinkat(store->programs, census.oldest, 0) != 0) {
            return ag_refuse(refusal, AG_ROOM, "the agent keeps at most %llu bytes, and %llu are in use",
                             (unsigned long long)store->quota, (unsigned long long)census.held);
        }
    }
}

/* How much is there of an upload that broke off. */
static bool resume(ag_upload_t *up)
{
    static uint8_t block[1u << 16];
    struct stat found;
    if (fstat(up->fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        return false;
    }
    if ((uint64_t)found.st_size > up->size) {
        return ftruncate(up->fd, 0) == 0;
    }
    for (ssize_t n; (n = read(up->fd, block, sizeof block)) != 0;) {
        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            ag_sha256_update(&up->hash, block, (size_t)n);
            up->offset += (uint64_t)n;
        }
    }
    return true;
}

ag_put_t ag_store_put(ag_store_t *store, ag_upload_t *up, const uint8_t *digest, uint64_t size, ag_in_use_t in_use,
                      void *owner, ag_refusal_t *refusal)
{
    char part[AG_NAME + sizeof PART];
    up->fd = -1;
    up->offset = 0;
    up->size = size;
    memcpy(up->digest, digest, sizeof up->digest);
    ag_hex(digest, AG_SHA256_BYTES, up->name);
    int there = has(store, up->name, size, refusal);
    if (there != 0) {
        if (there > 0) {
            (void)utimensat(store->programs, up->name, NULL, 0);
        }
        return there > 0 ? AG_THERE : AG_REFUSED;
    }
    if (!make_room(store, up->name, size, in_use, owner, refusal)) {
        return AG_REFUSED;
    }
    part_of(up->name, part);
    ag_sha256_init(&up->hash);
    up->fd = openat(store->programs, part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (up->fd >= 0 && flock(up->fd, LOCK_EX | LOCK_NB) != 0) {
        ag_upload_close(up);
        (void)ag_refuse(refusal, AG_BUSY, "somebody else is sending the same program");
        return AG_REFUSED;
    }
    if (up->fd < 0 || !resume(up)) {
        (void)ag_refuse(refusal, AG_ROOM, "the agent cannot keep it: %s", strerror(errno));
        ag_upload_close(up);
        return AG_REFUSED;
    }
    return AG_BEGUN;
}

bool ag_upload_add(ag_upload_t *up, const uint8_t *data, size_t n, ag_refusal_t *refusal)
{
    if (n > up->size - up->offset) {
        return ag_refuse(refusal, AG_REQUEST, "more bytes came than were announced");
    }
    ag_sha256_update(&up->hash, data, n);
    up->offset += n;
    while (n != 0) {
        ssize_t done = write(up->fd, data, n);
        if (done < 0 && errno != EINTR) {
            return ag_refuse(refusal, AG_ROOM, "the agent cannot keep it: %s", strerror(errno));
        }
        if (done > 0) {
            data += done;
            n -= (size_t)done;
        }
    }
    return true;
}

bool ag_upload_finish(ag_store_t *store, ag_upload_t *up, ag_refusal_t *refusal)
{
    char part[AG_NAME + sizeof PART];
    uint8_t digest[AG_SHA256_BYTES];
    part_of(up->name, part);
    ag_sha256_final(&up->hash, digest);
    if (memcmp(digest, up->digest, sizeof digest) != 0) {
        (void)unlinkat(store->programs, part, 0);
        return ag_refuse(refusal, AG_DAMAGED, "what came has another hash than was announced");
    }
    bool good = fchmod(up->fd, 0500) == 0 && renameat(store->programs, part, store->programs, up->name) == 0;
    return good || ag_refuse(refusal, AG_ROOM, "the agent cannot keep it: %s", strerror(errno));
}

void ag_upload_close(ag_upload_t *up)
{
    if (up->fd >= 0) {
        close(up->fd); /* a program that is open for writing cannot be run */
        up->fd = -1;
    }
}

ssize_t ag_store_head(ag_store_t *store, const char *name, uint8_t *head, size_t n, ag_refusal_t *refusal)
{
    int there = has(store, name, 0, refusal);
    if (there <= 0) {
        if (there == 0) {
            (void)ag_refuse(refusal, AG_UNKNOWN, "the program is not there");
        }
        return -1;
    }
    int fd = openat(store->programs, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd < 0 ? -1 : read(fd, head, n);
    if (got < 0) {
        (void)ag_refuse(refusal, AG_UNKNOWN, "the program cannot be read: %s", strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    return got;
}
