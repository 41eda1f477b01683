/* The loop: connections, programs, and what must end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent.h"

#define STEP_MS 250
#define FORGET_MS 5000u /* for which a program outlives its connection, for the tool to come back */
#define BEAT_MS 5000u
#define CLOSE_MS 6000u
#define PIECE (64u << 10)
#define ESTABLISHED 1u

/* Send what the other side takes; false where the connection is over. */
static bool flush(ag_conn_t *conn)
{
    ag_bytes_t *out = &conn->channel.out;
    while (out->at != out->end) {
        ssize_t n = write(conn->out, out->bytes + out->at, out->end - out->at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN;
        }
        ag_bytes_taken(out, (size_t)n);
    }
    return true;
}

/* Take what has come; false where the connection is over. */
static bool fill(ag_conn_t *conn)
{
    size_t room;
    uint8_t *place = ag_channel_room(&conn->channel, &room);
    ssize_t n = place == NULL ? 0 : read(conn->in, place, room);
    if (n > 0) {
        conn->channel.in.end += (size_t)n;
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool blocked(const ag_conn_t *conn)
{
    return conn->channel.out.end - conn->channel.out.at >= AG_BACKLOG ||
           (conn->run != NULL && conn->run->pending_end - conn->run->pending_at >= AG_BACKLOG);
}

/* What a program has written, as a record. */
static bool from_run(ag_conn_t *conn)
{
    uint8_t *place = ag_channel_begin(&conn->channel, PIECE);
    if (place == NULL) {
        return false;
    }
    ssize_t n = read(conn->run->out, place, PIECE);
    if (n > 0) {
        ag_channel_end(&conn->channel, AG_K_DATA, (uint32_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        close(conn->run->out);
        conn->run->out = -1;
    }
    return true;
}

typedef struct {
    struct pollfd fds[1u + AG_CONNECTIONS * 2u + AG_RUNS * 4u];
    unsigned n;
} polled_t;

static void want(polled_t *p, int fd, short events)
{
    if (fd >= 0 && events != 0) {
        p->fds[p->n].fd = fd;
        p->fds[p->n].events = events;
        p->fds[p->n++].revents = 0;
    }
}

/* What has happened at a descriptor. */
static short got(const polled_t *p, int fd)
{
    short events = 0;
    for (unsigned i = 0; fd >= 0 && i < p->n; ++i) {
        events = (short)(events | (p->fds[i].fd == fd ? p->fds[i].revents : 0));
    }
    return events;
}

static void want_conn(polled_t *p, const ag_conn_t *conn)
{
    const ag_run_t *run = conn->run;
    bool full = conn->channel.out.end - conn->channel.out.at >= AG_BACKLOG;
    short in = blocked(conn) ? POLLRDHUP : POLLIN, out = conn->channel.out.at != conn->channel.out.end ? POLLOUT : 0;
    if (conn->in == conn->out) {
        want(p, conn->in, (short)(in | out));
    } else {
        want(p, conn->in, in);
        want(p, conn->out, out);
    }
    if (run != NULL) {
        want(p, full ? -1 : run->out, POLLIN);
        want(p, run->err, POLLIN);
        want(p, run->report, POLLIN);
        want(p, run->pending_at != run->pending_end ? run->in : -1, POLLOUT);
    }
}

/* Serve a connection after a poll; false where it is over. */
static bool serve_conn(const polled_t *p, ag_conn_t *conn)
{
    ag_run_t *run = conn->run;
    short in = got(p, conn->in);
    if (run != NULL) {
        if (got(p, run->in) != 0 && run->pending_at != run->pending_end) {
            ag_run_feed(run);
        }
        if (got(p, run->err) != 0) {
            ag_run_listen(run);
        }
        if (got(p, run->out) != 0 && !from_run(conn)) {
            return false;
        }
        if (got(p, run->report) != 0) {
            ag_run_conclude(run);
        }
    }
    if ((in & (POLLIN | POLLHUP | POLLERR | POLLRDHUP)) != 0 && (blocked(conn) ? (in & POLLIN) == 0 : !fill(conn))) {
        return false;
    }
    bool good = ag_conn_step(conn);
    return flush(conn) && good && !ag_conn_expired(conn);
}

/* ---- new connections ---- */

static unsigned port_of(const struct sockaddr_storage *address)
{
    return ntohs(address->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)(const void *)address)->sin6_port
                                                : ((const struct sockaddr_in *)(const void *)address)->sin_port);
}

/* Whether the process at the other end, on this machine, is this user's or root's, where /proc tells: others who use the
 * machine may connect to its own addresses too. */
static bool is_ours(int fd)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    struct sockaddr_storage peer, here;
    socklen_t peer_n = sizeof peer, here_n = sizeof here;
    bool told = false;
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_n) != 0 ||
        getsockname(fd, (struct sockaddr *)&here, &here_n) != 0) {
        return false;
    }
    for (unsigned i = 0; i < 2; ++i) {
        char line[512];
        FILE *file = fopen(tables[i], "re");
        while (file != NULL && fgets(line, sizeof line, file) != NULL) {
            unsigned from, to, state, user;
            told = true;
            if (sscanf(line, " %*[^:]: %*[^:]:%x %*[^:]:%x %x %*s %*s %*s %u", &from, &to, &state, &user) == 4 &&
                from == port_of(&peer) && to == port_of(&here)) {
                fclose(file); /* one that has been closed already counts as nobody's, which looks like root's */
                return state == ESTABLISHED && (user == geteuid() || user == 0);
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    return !told;
}

static void tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},  {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 10},
                   {IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 3}};
    for (unsigned i = 0; i < sizeof options / sizeof *options; ++i) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
    }
}

static void accept_one(ag_server_t *server)
{
    ag_conn_t *oldest = NULL;
    unsigned unproven = 0;
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) { /* gone again, or too many files are open: others may close theirs */
        if (errno == EMFILE || errno == ENFILE) {
            (void)usleep(10000);
        }
        return;
    }
    for (unsigned i = 0; i < AG_CONNECTIONS; ++i) {
        ag_conn_t *conn = server->conns[i];
        if (conn != NULL && conn->state < AG_READY) {
            ++unproven;
            oldest = oldest == NULL || conn->number < oldest->number ? conn : oldest;
        }
    }
    if (unproven >= AG_UNPROVEN) { /* it has had its time: none can keep others out by waiting */
        ag_conn_close(oldest);
    }
    tune(fd);
    if ((!server->keyed && !is_ours(fd)) || ag_conn_open(server, fd, fd) == NULL) {
        close(fd);
    }
}

/* ---- what must end ---- */

static void forget(ag_server_t *server)
{
    for (unsigned i = 0; i < AG_RUNS; ++i) {
        ag_run_t *run = &server->runs[i];
        if (run->watcher == 0) {
            continue;
        }
        if (!run->dropped && run->lost_ms != 0 && ag_now_ms() - run->lost_ms > FORGET_MS) {
            ag_run_drop(run);
        }
        if (run->dropped) {
            (void)ag_run_reap(run);
        }
    }
    ag_release(server);
}

static void close_all(ag_server_t *server)
{
    uint64_t until = ag_now_ms() + CLOSE_MS;
    bool left = true;
    for (unsigned i = 0; i < AG_CONNECTIONS; ++i) {
        if (server->conns[i] != NULL) {
            ag_conn_close(server->conns[i]);
        }
    }
    for (unsigned i = 0; i < AG_RUNS; ++i) {
        if (server->runs[i].watcher != 0 && !server->runs[i].dropped) {
            ag_run_drop(&server->runs[i]);
        }
    }
    while (left && ag_now_ms() < until) {
        left = false;
        for (unsigned i = 0; i < AG_RUNS; ++i) {
            left = (server->runs[i].watcher != 0 && !ag_run_reap(&server->runs[i])) || left;
        }
        if (left) {
            (void)usleep(5000);
        }
    }
}

/* A sign of life, which finds out that nobody is at the other end of a connection that says nothing. */
static bool beat(uint64_t *next)
{
    if (ag_now_ms() < *next) {
        return true;
    }
    *next = ag_now_ms() + BEAT_MS;
    return write(STDERR_FILENO, "\n", 1) == 1 || errno == EAGAIN || errno == EINTR;
}

static bool has_dropped(const ag_server_t *server)
{
    for (unsigned i = 0; i < AG_RUNS; ++i) {
        if (server->runs[i].dropped) {
            return true;
        }
    }
    return false;
}

int ag_serve(ag_server_t *server)
{
    static polled_t p;
    uint64_t next_beat = ag_now_ms() + BEAT_MS;
    if (server->stdio && ag_conn_open(server, STDIN_FILENO, STDOUT_FILENO) == NULL) {
        return 1;
    }
    for (bool alive = true; alive && *server->stop == 0;) {
        p.n = 0;
        want(&p, server->listener, POLLIN);
        for (unsigned i = 0; i < AG_CONNECTIONS; ++i) {
            if (server->conns[i] != NULL) {
                want_conn(&p, server->conns[i]);
            }
        }
        if (poll(p.fds, p.n, has_dropped(server) ? 5 : STEP_MS) < 0 && errno != EINTR) {
            break;
        }
        for (unsigned i = 0; i < AG_CONNECTIONS; ++i) {
            ag_conn_t *conn = server->conns[i];
            if (conn != NULL && !serve_conn(&p, conn)) {
                ag_conn_close(conn);
                alive = !server->stdio;
            }
        }
        if (got(&p, server->listener) != 0) {
            accept_one(server);
        }
        forget(server);
        alive = alive && (!server->stdio || beat(&next_beat));
    }
    close_all(server);
    return *server->stop == 0 ? 0 : 128 + *server->stop;
}
