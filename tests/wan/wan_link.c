/* Joins this network namespace with others through links that have a delay, a rate and
 * losses, because not every kernel has netem.
 *
 * usage: wan_link FOLDER NAME:PID:DELAY_MS:LOSS_PERCENT:KBIT...
 *
 * For each link, makes the TUN device NAME in this namespace and in the network
 * namespace of the process PID. A packet waits in a queue of at most QUEUE_S (and is
 * dropped if it would wait longer), leaves at the rate, and arrives after the delay.
 * Four times per second writes FOLDER/NAME: bytes that entered the link from the other
 * namespace to this one ("up"), and from here ("down"). Ends when its input ends. */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { LINKS_MAX = 8, PACKET_MAX = 65536, TICK_MS = 50, WRITE_MS = 250 };
static const double queue_s = 0.3;

typedef struct packet {
    struct packet *next;
    double at; /* when it arrives */
    size_t len;
    uint8_t bytes[];
} packet;

/* One direction of a link. */
typedef struct way {
    int from, to;          /* descriptors of the TUN devices */
    packet *first, **last; /* packets on the way, in order */
    double free_at;        /* when the queue will be empty */
    uint64_t bytes;
} way;

typedef struct wan_link {
    char name[IFNAMSIZ];
    double delay_s, loss, bytes_per_s;
    way up, down;
} wan_link;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Ends the program with a sentence about the failed call. */
static void give_up(const char *what)
{
    fprintf(stderr, "wan_link: %s: %s\n", what, strerror(errno));
    exit(77);
}

static int make_device(const char *name, const char *space)
{
    struct ifreq r;
    int at = open(space, O_RDONLY | O_CLOEXEC);
    if (at < 0 || setns(at, CLONE_NEWNET) != 0)
        give_up(space);
    close(at);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    memset(&r, 0, sizeof r);
    r.ifr_flags = IFF_TUN | IFF_NO_PI;
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &r) != 0)
        give_up("/dev/net/tun");
    return fd;
}

static bool open_link(wan_link *l, const char *text)
{
    char space[64];
    int pid;
    double delay_ms, kbit;
    if (sscanf(text, "%15[^:]:%d:%lf:%lf:%lf", l->name, &pid, &delay_ms, &l->loss,
               &kbit) != 5)
        return false;
    l->delay_s = delay_ms / 1e3;
    l->bytes_per_s = kbit * 125;
    snprintf(space, sizeof space, "/proc/%d/ns/net", getpid());
    int own = open(space, O_RDONLY | O_CLOEXEC);
    int here = make_device(l->name, space);
    snprintf(space, sizeof space, "/proc/%d/ns/net", pid);
    int there = make_device(l->name, space);
    if (own < 0 || setns(own, CLONE_NEWNET) != 0)
        give_up("returning to the first namespace");
    close(own);
    l->up = (way){.from = there, .to = here, .last = &l->up.first};
    l->down = (way){.from = here, .to = there, .last = &l->down.first};
    return true;
}

static void take_packet(const wan_link *l, way *w, const uint8_t *bytes, size_t len)
{
    double t = now(), begins = w->free_at > t ? w->free_at : t;
    if (begins - t > queue_s || drand48() * 100 < l->loss)
        return;
    packet *p = malloc(sizeof *p + len);
    if (!p)
        return;
    w->free_at = begins + (double)len / l->bytes_per_s;
    *p = (packet){.at = w->free_at + l->delay_s, .len = len};
    memcpy(p->bytes, bytes, len);
    *w->last = p;
    w->last = &p->next;
    w->bytes += len;
}

/* Delivers the packets whose time has come; returns when the next one arrives. */
static double deliver(way *w, double wake)
{
    double t = now();
    while (w->first && w->first->at <= t) {
        packet *p = w->first;
        w->first = p->next;
        if (!w->first)
            w->last = &w->first;
        /* a device that accepts no packet loses it, as a network does */
        if (write(w->to, p->bytes, p->len) < 0)
            errno = 0;
        free(p);
    }
    return w->first && w->first->at < wake ? w->first->at : wake;
}

static void read_packets(const wan_link *l, way *w)
{
    static uint8_t bytes[PACKET_MAX];
    ssize_t len;
    while ((len = read(w->from, bytes, sizeof bytes)) > 0)
        take_packet(l, w, bytes, (size_t)len);
}

static void write_counts(const wan_link *l, const char *folder)
{
    char path[4096], fresh[4096];
    snprintf(path, sizeof path, "%s/%s", folder, l->name);
    snprintf(fresh, sizeof fresh, "%s/.%s", folder, l->name);
    FILE *file = fopen(fresh, "w");
    if (!file)
        give_up(fresh);
    fprintf(file, "%llu %llu\n", (unsigned long long)l->up.bytes,
            (unsigned long long)l->down.bytes);
    if (fclose(file) != 0 || rename(fresh, path) != 0)
        give_up(path);
}

static void run_links(wan_link *links, size_t n, const char *folder)
{
    struct pollfd fds[2 * LINKS_MAX + 1];
    double write_at = 0;
    fds[2 * n] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    while (fds[2 * n].revents == 0) {
        double t = now(), wake = t + TICK_MS / 1e3;
        for (size_t i = 0; i < n; i++) {
            wake = deliver(&links[i].up, deliver(&links[i].down, wake));
            fds[2 * i] = (struct pollfd){.fd = links[i].up.from, .events = POLLIN};
            fds[2 * i + 1] =
                (struct pollfd){.fd = links[i].down.from, .events = POLLIN};
            if (t >= write_at)
                write_counts(&links[i], folder);
        }
        if (t >= write_at)
            write_at = t + WRITE_MS / 1e3;
        double left = wake - now();
        struct timespec wait = {.tv_nsec = left > 0 ? (long)(left * 1e9) : 0};
        ppoll(fds, 2 * n + 1, &wait, NULL);
        for (size_t i = 0; i < n; i++) {
            read_packets(&links[i], &links[i].up);
            read_packets(&links[i], &links[i].down);
        }
    }
}

int main(int argc, char **argv)
{
    static wan_link links[LINKS_MAX];
    size_t n = 0;
    if (argc < 3 || argc > LINKS_MAX + 2) {
        fprintf(stderr,
                "usage: wan_link FOLDER NAME:PID:DELAY_MS:LOSS_PERCENT:KBIT...\n");
        return 64;
    }
    for (int i = 2; i < argc; i++)
        if (!open_link(&links[n++], argv[i])) {
            fprintf(stderr, "wan_link: %s is no description of a link\n", argv[i]);
            return 64;
        }
    run_links(links, n, argv[1]);
    return 0;
}
