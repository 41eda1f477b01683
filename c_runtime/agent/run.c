/* Programs that run: their watchers, their pipes, how they ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"

#define END_MS 5000u /* for a watcher to end all */

enum { IN, OUT, ERR, REPORT, LIFE, PIPES };

static void shut(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* In the new process: the pipes' other ends become what a watcher has, and it watches. */
static void become_watcher(int pipes[PIPES][2], const ag_watch_t *watch)
{
    static const int standard[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
    const int ends[] = {pipes[IN][0], pipes[OUT][1], pipes[ERR][1]};
    int high[3];
    for (unsigned i = 0; i < 3; ++i) { /* they may be numbers of each other */
        high[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, 3);
    }
    for (unsigned i = 0; i < 3; ++i) {
        if (high[i] < 0 || dup2(high[i], standard[i]) < 0) {
            _exit(1);
        }
        close(high[i]);
    }
    ag_watch(watch);
}

static bool make_pipes(int pipes[PIPES][2])
{
    for (unsigned i = 0; i < PIPES; ++i) {
        pipes[i][0] = pipes[i][1] = -1;
    }
    for (unsigned i = 0; i < PIPES; ++i) {
        if (pipe2(pipes[i], O_CLOEXEC) != 0) {
            return false;
        }
    }
    return true;
}

static void nonblocking(int fd)
{
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static bool start(ag_run_t *run, ag_store_t *store, const ag_limits_t *limits, const char *folder, int folder_fd)
{
    char program[4096], home[4096];
    int pipes[PIPES][2];
    (void)snprintf(program, sizeof program, "%s/programs/%s", limits->root, run->name);
    (void)snprintf(home, sizeof home, "%s/runs/%s", limits->root, folder);
    bool good = make_pipes(pipes);
    pid_t watcher = good ? fork() : -1;
    if (watcher == 0) {
        ag_watch_t watch = {
            .program = program, .via = limits->via, .folder = home, .folders = store->runs,
            .report = pipes[REPORT][1], .lifeline = pipes[LIFE][0],
            .memory = limits->memory, .disk = limits->disk, .cores = limits->cores,
        };
        (void)folder_fd; /* its lock is the watcher's now */
        become_watcher(pipes, &watch);
    }
    int kept = errno;
    for (unsigned i = 0; i < PIPES; ++i) { /* the watcher reads from standard input and the lifeline, writes the rest */
        bool write_end = i == IN || i == LIFE;
        shut(&pipes[i][write_end ? 0 : 1]);
        if (watcher < 0) {
            shut(&pipes[i][write_end ? 1 : 0]);
        }
    }
    if (watcher < 0) {
        errno = kept;
        return false;
    }
    run->watcher = watcher;
    run->in = pipes[IN][1];
    run->out = pipes[OUT][0];
    run->err = pipes[ERR][0];
    run->report = pipes[REPORT][0];
    run->lifeline = pipes[LIFE][1];
    nonblocking(run->in);
    nonblocking(run->out);
    nonblocking(run->err);
    return true;
}

bool ag_run_start(ag_run_t *run, ag_store_t *store, const ag_limits_t *limits, ag_refusal_t *refusal)
{
    uint8_t random[16];
    char folder[33];
    if (!ag_random(run->id, sizeof run->id) || !ag_random(random, sizeof random)) {
        return ag_refuse(refusal, AG_ROOM, "the agent cannot start it: no random numbers");
    }
    ag_hex(random, sizeof random, folder);
    int fd = mkdirat(store->runs, folder, 0700) == 0 ? openat(store->runs, folder, O_RDONLY | O_CLOEXEC) : -1;
    bool good = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 && start(run, store, limits, folder, fd);
    int kept = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (!good) {
        (void)unlinkat(store->runs, folder, AT_REMOVEDIR);
        return ag_refuse(refusal, AG_ROOM, "the agent cannot start it: %s", strerror(kept));
    }
    return true;
}

/* How many bytes the program takes. What it reads no more is as taken. */
static size_t hand_over(ag_run_t *run, const uint8_t *data, size_t n)
{
    ssize_t done = run->in < 0 ? (ssize_t)n : write(run->in, data, n);
    if (done >= 0) {
        return (size_t)done;
    }
    if (errno == EAGAIN || errno == EINTR) {
        return 0;
    }
    shut(&run->in);
    return n;
}

void ag_run_give(ag_run_t *run, const uint8_t *data, size_t n)
{
    if (run->pending_at == run->pending_end) {
        size_t done = hand_over(run, data, n);
        data += done;
        n -= done;
    }
    ag_bytes_t bytes = {run->pending, run->pending_at, run->pending_end, run->pending_cap};
    if (n != 0 && ag_bytes_reserve(&bytes, n)) { /* else lost, as on any bad line */
        memcpy(bytes.bytes + bytes.end, data, n);
        bytes.end += n;
    }
    run->pending = bytes.bytes;
    run->pending_at = bytes.at;
    run->pending_end = bytes.end;
    run->pending_cap = bytes.cap;
}

void ag_run_feed(ag_run_t *run)
{
    run->pending_at += hand_over(run, run->pending + run->pending_at, run->pending_end - run->pending_at);
    if (run->pending_at == run->pending_end) {
        run->pending_at = run->pending_end = 0;
    }
}

void ag_run_listen(ag_run_t *run)
{
    uint8_t piece[4096];
    ssize_t n = read(run->err, piece, sizeof piece);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        shut(&run->err);
    }
    if (n <= 0) {
        return;
    }
    size_t fresh = (size_t)n < AG_WORDS ? (size_t)n : AG_WORDS;
    size_t keep = run->words_n < AG_WORDS - fresh ? run->words_n : AG_WORDS - fresh;
    memmove(run->words, run->words + run->words_n - keep, keep);
    memcpy(run->words + keep, piece + (size_t)n - fresh, fresh);
    run->words_n = keep + fresh;
}

void ag_run_conclude(ag_run_t *run)
{
    if (read(run->report, run->outcome, sizeof run->outcome) != (ssize_t)sizeof run->outcome) {
        memset(run->outcome, 0, sizeof run->outcome); /* somebody has killed the watcher */
        run->outcome[0] = AG_STOPPED;
    }
    run->ended = true;
    shut(&run->report);
    ag_run_stop(run);
}

void ag_run_stop(ag_run_t *run)
{
    shut(&run->lifeline);
}

bool ag_run_is_over(const ag_run_t *run)
{
    return run->report < 0 && run->out < 0 && run->err < 0;
}

void ag_run_drop(ag_run_t *run)
{
    ag_run_stop(run);
    shut(&run->in);
    shut(&run->out);
    shut(&run->err);
    shut(&run->report);
    free(run->pending);
    run->pending = NULL;
    run->pending_at = run->pending_end = run->pending_cap = 0;
    run->dropped = true;
    run->kill_ms = ag_now_ms() + END_MS;
}

bool ag_run_reap(ag_run_t *run)
{
    pid_t gone = waitpid(run->watcher, NULL, WNOHANG);
    if (gone == 0 && ag_now_ms() >= run->kill_ms) {
        (void)kill(run->watcher, SIGKILL);
        gone = waitpid(run->watcher, NULL, 0);
    }
    if (gone == 0) {
        return false;
    }
    memset(run, 0, sizeof *run);
    return true;
}
