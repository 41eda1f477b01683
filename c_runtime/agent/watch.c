/*
 * A process that runs one program, watches it, and ends it with all that it started. Where Linux offers it, it becomes the
 * parent of whatever the program leaves behind, so that nothing escapes by leaving its process group.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"

#define STEP_MS 50 /* between two looks at the memory */
#define DISK_MS 500u
#define MAX_PROCESSES 512u
#define MAX_FILES 10000u
#define MAX_OPEN_FILES 256u
#define KILL_ROUNDS 200u
#define DEPTH 64

static struct {
    pid_t pids[4096];
    unsigned n;
} below; /* the processes below this one */

static void append(pid_t pid)
{
    if (below.n < sizeof below.pids / sizeof *below.pids) {
        below.pids[below.n++] = pid;
    }
}

/* The children of a thread, as /proc lists them; false where it does not. */
static bool children_of(pid_t pid, const char *task)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/proc/%ld/task/%.20s/children", (long)pid, task);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    for (long child; fscanf(file, "%ld", &child) == 1;) {
        append((pid_t)child);
    }
    fclose(file);
    return true;
}

/* Some kernels list no children: then each process says who its parent is. */
static void look_at_all(void)
{
    static struct {
        pid_t pid, parent;
    } all[16384];
    unsigned n = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL && n < 16384u;) {
        char path[64], text[512], state;
        long parent;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') {
            continue;
        }
        (void)snprintf(path, sizeof path, "/proc/%.20s/stat", entry->d_name);
        FILE *file = fopen(path, "re");
        size_t got = file == NULL ? 0 : fread(text, 1, sizeof text - 1u, file);
        if (file != NULL) {
            fclose(file);
        }
        text[got] = '\0';
        const char *end = strrchr(text, ')'); /* a name may have any signs */
        if (end != NULL && sscanf(end + 1, " %c %ld", &state, &parent) == 2) {
            all[n].pid = (pid_t)atol(entry->d_name);
            all[n++].parent = (pid_t)parent;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    below.n = 0;
    append(getpid());
    for (unsigned at = 0; at < below.n; ++at) {
        for (unsigned i = 0; i < n; ++i) {
            if (all[i].parent == below.pids[at]) {
                append(all[i].pid);
            }
        }
    }
}

static void look(void)
{
    static int lists = -1;
    if (lists < 0) {
        char own[32];
        (void)snprintf(own, sizeof own, "%ld", (long)getpid());
        below.n = 0;
        lists = children_of(getpid(), own);
    }
    below.n = 0;
    append(getpid());
    for (unsigned at = 0; lists != 0 && at < below.n; ++at) {
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)below.pids[at]);
        DIR *folder = opendir(path);
        for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
            if (entry->d_name[0] != '.') {
                (void)children_of(below.pids[at], entry->d_name);
            }
        }
        if (folder != NULL) {
            closedir(folder);
        }
    }
    if (lists == 0) {
        look_at_all();
    }
}

static uint64_t resident(void)
{
    uint64_t pages = 0;
    for (unsigned i = 1; i < below.n; ++i) {
        char path[64];
        unsigned long size, held;
        (void)snprintf(path, sizeof path, "/proc/%ld/statm", (long)below.pids[i]);
        FILE *file = fopen(path, "re");
        if (file != NULL) {
            pages += fscanf(file, "%lu %lu", &size, &held) == 2 ? held : 0;
            fclose(file);
        }
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Bytes on disk in a folder; endless where there are very many files, or folders very deep. */
static uint64_t used(int at, const char *name, unsigned *files, int depth)
{
    uint64_t total = 0;
    int fd = depth > DEPTH ? -1 : openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return depth > DEPTH ? UINT64_MAX / 2u : 0;
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL && total < UINT64_MAX / 4u;) {
        struct stat found;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        if (++*files > MAX_FILES) {
            total = UINT64_MAX / 2u;
        } else if (fstatat(fd, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0) {
            total += (uint64_t)found.st_blocks * 512u;
            total += S_ISDIR(found.st_mode) ? used(fd, entry->d_name, files, depth + 1) : 0;
        }
    }
    closedir(folder);
    return total;
}

static void limit(int what, uint64_t max)
{
    struct rlimit now;
    if (getrlimit(what, &now) == 0) {
        now.rlim_cur = now.rlim_max == RLIM_INFINITY || max < now.rlim_max ? (rlim_t)max : now.rlim_max;
        now.rlim_max = now.rlim_cur;
        (void)setrlimit(what, &now);
    }
}

static bool pin(uint64_t cores)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (unsigned core = 0; core < 64; ++core) {
        if ((cores >> core & 1u) != 0) {
            CPU_SET(core, &set);
        }
    }
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

/* In the child: give up what it is not to have, and become the program; say the error's number where that fails. */
static void become(const ag_watch_t *w, int say)
{
    static const int usual[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
    static char home[4200], temporary[4200];
    char *environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin:/system/bin", home, temporary, "LANG=C", NULL};
    char *plain[] = {(char *)(uintptr_t)w->program, NULL};
    char *hosted[] = {(char *)(uintptr_t)w->via, plain[0], NULL};
    for (unsigned i = 0; i < sizeof usual / sizeof *usual; ++i) {
        (void)signal(usual[i], SIG_DFL);
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)snprintf(home, sizeof home, "HOME=%s", w->folder);
    (void)snprintf(temporary, sizeof temporary, "TMPDIR=%s", w->folder);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, w->disk);
    limit(RLIMIT_NOFILE, MAX_OPEN_FILES);
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) { /* where memory ends before our limit, it goes first */
        ssize_t done = write(fd, "1000", 4);
        (void)done;
        close(fd);
    }
    if (chdir(w->folder) == 0 && (w->cores == 0 || pin(w->cores))) {
        if (w->via != NULL) {
            (void)execve(w->via, hosted, environment);
        } else {
            (void)execve(w->program, plain, environment);
        }
    }
    int32_t error = errno;
    ssize_t done = write(say, &error, sizeof error);
    (void)done;
    _exit(127);
}

/* End all that is below us. It is stopped first: what is stopped starts nothing new. */
static void kill_all(void)
{
    for (unsigned round = 0; round < KILL_ROUNDS; ++round) {
        look();
        for (unsigned i = 1; i < below.n; ++i) {
            (void)kill(below.pids[i], SIGSTOP);
        }
        for (unsigned i = 1; i < below.n; ++i) {
            (void)kill(below.pids[i], SIGKILL);
        }
        pid_t gone;
        while ((gone = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (gone < 0 && errno == ECHILD) {
            return;
        }
        (void)usleep(5000);
    }
}

static int woken[2];

static void wake(int number)
{
    int kept = errno;
    ssize_t done = write(woken[1], "", 1);
    (void)number;
    (void)done;
    errno = kept;
}

/* Take the ends of what was left to us by the program; whether its own is among them. */
static bool reap(pid_t child)
{
    for (;;) {
        siginfo_t found;
        memset(&found, 0, sizeof found);
        if (waitid(P_ALL, 0, &found, WEXITED | WNOHANG | WNOWAIT) != 0 || found.si_pid == 0) {
            return false;
        }
        if (found.si_pid == child) {
            return true;
        }
        (void)waitpid(found.si_pid, NULL, 0);
    }
}

typedef struct {
    uint8_t how;
    int32_t value;
    uint64_t peak, cpu_ns;
} end_t;

/* Which limit the program has broken, AG_EXITED for none. */
static uint8_t broken(const ag_watch_t *w, const char *folder, end_t *end, uint64_t *next_disk)
{
    look();
    uint64_t held = resident();
    end->peak = held > end->peak ? held : end->peak;
    if (w->memory != 0 && held > w->memory) {
        return AG_MEMORY;
    }
    if (below.n > MAX_PROCESSES) {
        return AG_PROCESSES;
    }
    if (ag_now_ms() >= *next_disk) {
        unsigned files = 0;
        *next_disk = ag_now_ms() + DISK_MS;
        return used(w->folders, folder, &files, 0) > w->disk ? AG_DISK : AG_EXITED;
    }
    return AG_EXITED;
}

static void wait_for(const ag_watch_t *w, const char *folder, pid_t child, end_t *end)
{
    uint64_t next_disk = ag_now_ms() + DISK_MS;
    for (;;) {
        struct pollfd ready[] = {{w->lifeline, POLLIN, 0}, {woken[0], POLLIN, 0}};
        char sink[256];
        (void)poll(ready, 2, STEP_MS);
        while (read(woken[0], sink, sizeof sink) > 0) {
        }
        if (reap(child)) {
            break;
        }
        end->how = ready[0].revents != 0 ? AG_STOPPED : broken(w, folder, end, &next_disk);
        if (end->how != AG_EXITED) {
            (void)kill(child, SIGKILL);
            break;
        }
    }
    int status = 0;
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    (void)wait4(child, &status, 0, &usage);
    end->value = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    if (end->how == AG_EXITED && WIFSIGNALED(status)) {
        end->how = WTERMSIG(status) == SIGXFSZ ? AG_DISK : AG_SIGNAL;
    }
    uint64_t max = (uint64_t)usage.ru_maxrss * 1024u;
    end->peak = max > end->peak ? max : end->peak;
    end->cpu_ns = ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000u +
                  ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000u;
}

/* Close what belongs to the agent: connections must end with it, not with a program. */
static void close_others(const ag_watch_t *w)
{
    int kept[] = {0, 1, 2, w->report, w->lifeline, w->folders};
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        int fd = atoi(entry->d_name);
        bool keep = entry->d_name[0] == '.' || fd == dirfd(folder);
        for (unsigned i = 0; i < sizeof kept / sizeof *kept; ++i) {
            keep = keep || fd == kept[i];
        }
        struct stat found; /* the run's own folder stays open, with its lock */
        if (!keep && !(fstat(fd, &found) == 0 && S_ISDIR(found.st_mode))) {
            close(fd);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

static void prepare(const ag_watch_t *w)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE}; /* the agent ends us by the lifeline */
    close_others(w);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    for (unsigned i = 0; i < sizeof ignored / sizeof *ignored; ++i) {
        (void)signal(ignored[i], SIG_IGN);
    }
    if (pipe2(woken, O_CLOEXEC | O_NONBLOCK) != 0) {
        _exit(1);
    }
    (void)signal(SIGCHLD, wake);
}

void ag_watch(const ag_watch_t *w)
{
    const char *folder = strrchr(w->folder, '/') + 1;
    uint8_t report[21];
    int said[2];
    end_t end = {AG_EXITED, 0, 0, 0};
    prepare(w);
    if (pipe2(said, O_CLOEXEC) != 0) {
        _exit(1);
    }
    pid_t child = fork();
    if (child == 0) {
        close(w->report);
        close(w->lifeline);
        close(said[0]);
        become(w, said[1]);
    }
    close(said[1]);
    int quiet = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; ++fd) { /* the program's alone: their end is its end */
        (void)dup2(quiet, fd);
    }
    int32_t error = child < 0 ? errno : 0;
    ssize_t got;
    do {
        got = child < 0 ? 0 : read(said[0], &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    if (error != 0) {
        end.how = AG_NOT_STARTED;
        end.value = error;
    } else {
        wait_for(w, folder, child, &end);
    }
    kill_all();
    ag_remove_tree(w->folders, folder);
    report[0] = end.how;
    ag_put(report + 1, (uint32_t)end.value, 4);
    ag_put(report + 5, end.peak, 8);
    ag_put(report + 13, end.cpu_ns, 8);
    ssize_t done = write(w->report, report, sizeof report);
    (void)done;
    _exit(0);
}
