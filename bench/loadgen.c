/* The load generator: one collector that sends prebuilt `__BATCH__` lines as fast as the server takes them.
 *
 * It must never be the limit of a measurement, so it does next to nothing for a record: the lines are built once, and a
 * pass over the buffer changes only the upper digits of their ids. The number of lines in the buffer is a power of ten;
 * the lower digits of an id therefore belong to its place in the buffer and stay, and ids rise for ever.
 *
 *   full      a writer thread sends without waiting, the main thread reads and counts the replies
 *   window    at most N lines are unanswered; every reply lets one more go
 *   stop      a window of one line
 *
 * Replies are counted in order: RECEIVED, QUEUE_FULL, anything else. Nothing is sent twice and no reply is obeyed.
 * One JSON object goes to stdout; complaints go to stderr. Exit: 0, 64 usage, 69 no server, 75 the connection broke,
 * 77 the token was refused.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_USAGE = 64, EXIT_UNAVAILABLE = 69, EXIT_TRY_LATER = 75, EXIT_AUTH = 77 };

enum {
    ID_DIGITS = 16,
    MAX_WINDOW = 65536,
    MAX_SLICES = 1000,
    MAX_EDGES = MAX_SLICES + 1,
    RECEIVE_BYTES = 256 * 1024,
    BUFFER_BYTES = 1250 * 1000, /* about what a second-level cache holds */
    RECEIVED_BYTES = 9
};

static const char RECEIVED[] = "RECEIVED\n";
static const char BATCH_PREFIX[] = "__BATCH__:";
static const double NEVER = 1e18;

enum mode { MODE_FULL, MODE_WINDOW };

struct options {
    const char *host, *port, *token, *payloads;
    enum mode mode;
    bool replies;
    size_t window, payload_bytes;
    double warmup_s, seconds, connect_s, drain_s;
    uint64_t first_id, records;
    int slices;
    long server_pid;
};

static struct options opt = {
    .host = "127.0.0.1", .token = "bench", .mode = MODE_FULL, .replies = true, .window = 64, .payload_bytes = 256,
    .warmup_s = 0.3, .seconds = 1.0, .connect_s = 10.0, .drain_s = 20.0, .slices = 1,
};

static void fail(int code, const char *what, const char *detail) {
    fprintf(stderr, "loadgen: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    exit(code);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- CPU time ----------------------------------------------------------------------------------------------- */

/* CPU seconds that all threads of the server have used, or -1 where the system cannot tell about another process. */
static double server_cpu(void) {
#ifdef __linux__
    clockid_t clock;
    struct timespec t;
    if (opt.server_pid > 0 && clock_getcpuclockid((pid_t)opt.server_pid, &clock) == 0 && clock_gettime(clock, &t) == 0)
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
#endif
    return -1;
}

static double own_cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* ---- The prebuilt lines ------------------------------------------------------------------------------------- */

struct lines {
    char *bytes;
    size_t count, line_bytes, total_bytes;
    int low_digits;         /* count is 10 to this power */
    char high[ID_DIGITS + 1]; /* the upper digits now in the buffer */
    uint64_t next_pass_id;  /* the id of the first line once the buffer has been sent */
};

/* A payload as a log line has it: printable ASCII with colons, quotes and spaces, different in every line. */
static void fill_payload(char *out, size_t length, size_t line) {
    static const char text[] =
        "2025-11-30T01:14:02.511Z INFO [gateway-7] {\"event\": \"reading\", \"sensor\": \"t-204\", "
        "\"value\": 21.75, \"unit\": \"C\"} path=/var/lib/edge/queue took=12ms ";
    size_t at = (line * 7) % (sizeof text - 1);
    for (size_t i = 0; i < length; i++) out[i] = text[(at + i) % (sizeof text - 1)];
}

/* Write the upper digits of this pass's ids into every line; mostly only their last digits have changed. */
static void lines_stamp(struct lines *lines, uint64_t first_id) {
    char high[ID_DIGITS + 8];
    int digits = ID_DIGITS - lines->low_digits;
    snprintf(high, sizeof high, "%0*" PRIu64, digits, first_id / lines->count);
    char *at = lines->bytes + sizeof BATCH_PREFIX - 1, *end = lines->bytes + lines->total_bytes;
    if (digits > 8 && memcmp(high, lines->high, (size_t)digits - 8) == 0) {
        const char *changed = high + digits - 8;
        for (at += digits - 8; at < end; at += lines->line_bytes) memcpy(at, changed, 8);
    } else {
        for (; at < end; at += lines->line_bytes) memcpy(at, high, (size_t)digits);
    }
    memcpy(lines->high, high, sizeof lines->high);
    lines->next_pass_id = first_id + lines->count;
}

/* The payloads of a file, all `length` bytes long and one a line; they are used over and over. */
struct payload_file {
    char *bytes;
    size_t lines;
};

static struct payload_file read_payloads(const char *path, size_t length) {
    struct payload_file file = {NULL, 0};
    FILE *in = fopen(path, "rb");
    if (!in || fseek(in, 0, SEEK_END) != 0) fail(EXIT_USAGE, "cannot read --payloads", path);
    long size = ftell(in);
    rewind(in);
    file.bytes = size > 0 ? malloc((size_t)size) : NULL;
    if (!file.bytes || fread(file.bytes, 1, (size_t)size, in) != (size_t)size)
        fail(EXIT_USAGE, "cannot read --payloads", path);
    fclose(in);
    file.lines = (size_t)size / (length + 1);
    bool fits = (size_t)size == file.lines * (length + 1);
    for (size_t i = 0; fits && i < file.lines; i++) fits = file.bytes[(i + 1) * (length + 1) - 1] == '\n';
    if (!fits) fail(EXIT_USAGE, "every line of --payloads has --payload bytes", path);
    return file;
}

static void lines_build(struct lines *lines, size_t payload_bytes, uint64_t first_id) {
    struct payload_file file = {NULL, 0};
    if (opt.payloads) file = read_payloads(opt.payloads, payload_bytes);
    size_t head = sizeof BATCH_PREFIX - 1;
    lines->line_bytes = head + ID_DIGITS + 1 + payload_bytes + 1;
    lines->count = 1;
    while (lines->count < 100000 && lines->count * 10 * lines->line_bytes <= BUFFER_BYTES) {
        lines->count *= 10;
        lines->low_digits++;
    }
    lines->total_bytes = lines->count * lines->line_bytes;
    lines->bytes = malloc(lines->total_bytes);
    if (!lines->bytes) fail(EXIT_UNAVAILABLE, "no memory for the lines", NULL);
    for (size_t i = 0; i < lines->count; i++) {
        char digits[ID_DIGITS + 8];
        char *line = lines->bytes + i * lines->line_bytes;
        memcpy(line, BATCH_PREFIX, head);
        snprintf(digits, sizeof digits, "%0*zu", ID_DIGITS, i);
        memcpy(line + head, digits, ID_DIGITS);
        line[head + ID_DIGITS] = ':';
        char *payload = line + head + ID_DIGITS + 1;
        if (file.bytes)
            memcpy(payload, file.bytes + i % file.lines * (payload_bytes + 1), payload_bytes);
        else
            fill_payload(payload, payload_bytes, i);
        line[lines->line_bytes - 1] = '\n';
    }
    free(file.bytes);
    lines_stamp(lines, (first_id + lines->count - 1) / lines->count * lines->count);
}

/* ---- Replies ------------------------------------------------------------------------------------------------ */

struct tally {
    uint64_t received, queue_full, other;
    char carry[128]; /* the start of a reply whose end has not come yet */
    size_t carry_bytes;
    char other_sample[64];
};

static char *pattern; /* "RECEIVED\n" again and again, longer than anything received at once */

static void tally_line(struct tally *tally, const char *line, size_t length) {
    if (length == RECEIVED_BYTES - 1 && memcmp(line, RECEIVED, length) == 0) {
        tally->received++;
    } else if (length > 11 && memcmp(line, "QUEUE_FULL:", 11) == 0) {
        tally->queue_full++;
    } else {
        tally->other++;
        if (!tally->other_sample[0])
            snprintf(tally->other_sample, sizeof tally->other_sample, "%.*s", (int)length, line);
    }
}

static void tally_add(struct tally *tally, const char *data, size_t length) {
    size_t phase = tally->carry_bytes;
    if (phase < RECEIVED_BYTES && memcmp(tally->carry, RECEIVED, phase) == 0 &&
        memcmp(data, pattern + phase, length) == 0) {
        /* Nothing but RECEIVED, by far the usual case: one comparison for the whole chunk. */
        tally->received += (phase + length) / RECEIVED_BYTES;
        tally->carry_bytes = (phase + length) % RECEIVED_BYTES;
        memcpy(tally->carry, RECEIVED, tally->carry_bytes);
        return;
    }
    const char *end = data + length;
    while (data < end) {
        const char *lf = memchr(data, '\n', (size_t)(end - data));
        size_t piece = (size_t)((lf ? lf : end) - data);
        size_t room = sizeof tally->carry - tally->carry_bytes;
        size_t kept = piece < room ? piece : room; /* no reply is that long; the rest of a longer one is not needed */
        memcpy(tally->carry + tally->carry_bytes, data, kept);
        tally->carry_bytes += kept;
        if (!lf) return;
        tally_line(tally, tally->carry, tally->carry_bytes);
        tally->carry_bytes = 0;
        data = lf + 1;
    }
}

static uint64_t tally_answered(const struct tally *tally) { return tally->received + tally->queue_full + tally->other; }

/* ---- Reply times -------------------------------------------------------------------------------------------- */

/* Buckets of at most 1.6 % width: 64 to every doubling of the nanoseconds. */
enum { SUB = 64, BUCKETS = SUB * 40 };
static uint64_t histogram[BUCKETS];
static uint64_t histogram_total;

static size_t bucket_of(uint64_t ns) {
    if (ns < SUB) return (size_t)ns;
    int shift = 63 - __builtin_clzll(ns) - 6;
    size_t bucket = (size_t)(shift + 1) * SUB + (size_t)(ns >> shift) - SUB;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static uint64_t bucket_middle(size_t bucket) {
    if (bucket < SUB) return bucket;
    size_t shift = bucket / SUB - 1;
    return ((uint64_t)(bucket % SUB + SUB) << shift) + (((uint64_t)1 << shift) >> 1);
}

static void histogram_add(double seconds) {
    histogram[bucket_of((uint64_t)(seconds * 1e9))]++;
    histogram_total++;
}

static uint64_t histogram_percentile(double share) {
    uint64_t wanted = (uint64_t)(share * (double)histogram_total), seen = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        seen += histogram[i];
        if (seen > wanted) return bucket_middle(i);
    }
    return 0;
}

/* ---- The measured window ------------------------------------------------------------------------------------ */

/* Edges of the slices that are measured: what had been answered (or sent), and which CPU time used, at that moment. */
struct edge {
    double at, server_cpu, own_cpu;
    uint64_t received, answered;
};

static struct edge edges[MAX_EDGES];
static int edge_count;
static double next_edge_at;        /* timed runs: when to take the next edge */
static uint64_t next_edge_records; /* counted runs: after how many records */

static void edges_start(double start) {
    next_edge_at = opt.records ? NEVER : start + opt.warmup_s;
    next_edge_records = opt.records ? 0 : UINT64_MAX;
}

/* Take an edge when one is due. Returns true when the last one has been taken. */
static bool edges_pass(double at, uint64_t received, uint64_t answered) {
    if (edge_count <= opt.slices && (at >= next_edge_at || answered >= next_edge_records)) {
        edges[edge_count++] = (struct edge){at, server_cpu(), own_cpu(), received, answered};
        if (opt.records)
            next_edge_records = opt.records / (uint64_t)opt.slices * (uint64_t)edge_count;
        else
            next_edge_at = edges[0].at + opt.seconds / opt.slices * edge_count;
    }
    return edge_count > opt.slices;
}

/* ---- The connection ----------------------------------------------------------------------------------------- */

static int sock = -1;

/* A server that is silent for this long is dead: the run ends with a complaint instead of never. */
static void set_receive_timeout(double seconds) {
    struct timeval t = {.tv_sec = (time_t)seconds, .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

static bool try_connect(void) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int error = getaddrinfo(opt.host, opt.port, &hints, &found);
    if (error) fail(EXIT_USAGE, "cannot resolve the address", gai_strerror(error));
    sock = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    bool connected = sock >= 0 && connect(sock, found->ai_addr, found->ai_addrlen) == 0;
    freeaddrinfo(found);
    if (!connected) {
        if (sock >= 0) close(sock);
        return false;
    }
    int on = 1;
    set_receive_timeout(opt.drain_s);
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef TCP_CONGESTION
    /* A congestion control that paces (bbr) would make its timers the limit; these two send what the window allows. */
    if (setsockopt(sock, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0)
        setsockopt(sock, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
#endif
    return true;
}

static bool send_all(const char *data, size_t length) {
    while (length) {
        ssize_t sent = send(sock, data, length, 0);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        data += sent;
        length -= (size_t)sent;
    }
    return true;
}

/* Send the authentication line and read its one reply line. False: not elected this time, come again. */
static bool authenticate(void) {
    char line[4096];
    int length = snprintf(line, sizeof line, "__AUTH__:%s\n", opt.token);
    if (length <= 0 || (size_t)length >= sizeof line) fail(EXIT_USAGE, "the token is too long", NULL);
    if (!send_all(line, (size_t)length)) return false;
    if (!opt.replies) return true;
    size_t got = 0;
    while (got < sizeof line - 1 && recv(sock, line + got, 1, 0) == 1)
        if (line[got++] == '\n') break;
    line[got] = 0;
    if (strcmp(line, "AUTH_FAILED\n") == 0) fail(EXIT_AUTH, "AUTH_FAILED", NULL);
    return strcmp(line, "ACK\n") == 0;
}

/* A server reopens its listener a moment after the last collector has gone: try until the time is up. */
static void connect_and_authenticate(void) {
    double deadline = now() + opt.connect_s;
    for (;;) {
        if (try_connect()) {
            if (authenticate()) return;
            close(sock);
        }
        if (now() > deadline) fail(EXIT_UNAVAILABLE, "no server let this collector in", opt.port);
        usleep(10 * 1000);
    }
}

/* ---- The modes ---------------------------------------------------------------------------------------------- */

static struct lines lines;
static struct tally tally;
static atomic_bool stop_writing;
static atomic_bool writer_failed;
static atomic_uint_fast64_t lines_sent;
static atomic_bool writer_done;

/* How many more lines of the buffer may go in this pass. */
static size_t pass_lines(uint64_t sent) {
    uint64_t left = opt.records ? opt.records - sent : UINT64_MAX;
    return left < lines.count ? (size_t)left : lines.count;
}

/* Send without waiting until told to stop or all records are out; always ends at a line end. */
static void *write_forever(void *unused) {
    (void)unused;
    uint64_t sent = 0;
    while (!atomic_load_explicit(&stop_writing, memory_order_relaxed)) {
        size_t count = pass_lines(sent);
        if (count == 0) break;
        if (!send_all(lines.bytes, count * lines.line_bytes)) {
            atomic_store(&writer_failed, true);
            break;
        }
        sent += count;
        atomic_store_explicit(&lines_sent, sent, memory_order_release);
        lines_stamp(&lines, lines.next_pass_id);
        if (!opt.replies && edges_pass(now(), sent, sent)) break; /* nobody answers: what was taken is what counts */
    }
    atomic_store(&writer_done, true);
    return NULL;
}

static void run_full(void) {
    static char chunk[RECEIVE_BYTES];
    pthread_t writer;
    edges_start(now());
    if (!opt.replies) {
        write_forever(NULL);
        return;
    }
    edges_pass(now(), 0, 0);
    if (pthread_create(&writer, NULL, write_forever, NULL) != 0) fail(EXIT_UNAVAILABLE, "no thread", NULL);
    bool measured = false;
    for (;;) {
        if (measured && atomic_load(&writer_done) && tally_answered(&tally) >= atomic_load(&lines_sent)) break;
        ssize_t got = recv(sock, chunk, sizeof chunk, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        tally_add(&tally, chunk, (size_t)got);
        if (!measured && edges_pass(now(), tally.received, tally_answered(&tally))) {
            measured = true;
            atomic_store(&stop_writing, true);
        }
    }
    atomic_store(&stop_writing, true);
    if (!atomic_load(&writer_done)) shutdown(sock, SHUT_RDWR); /* wakes a writer that hangs on a dead server */
    pthread_join(writer, NULL);
}

static void run_window(void) {
    static char chunk[RECEIVE_BYTES];
    static double sent_at[MAX_WINDOW];
    uint64_t sent = 0, answered = 0;
    size_t at = 0; /* the next line of the buffer */
    bool measured = false;
    edges_start(now());
    edges_pass(now(), 0, 0);
    for (;;) {
        while (!measured && sent - answered < opt.window) {
            size_t room = opt.window - (size_t)(sent - answered), count = lines.count - at;
            if (count > room) count = room;
            if (opt.records && count > opt.records - sent) count = (size_t)(opt.records - sent);
            if (count == 0) break;
            double t = now();
            for (size_t i = 0; i < count; i++) sent_at[(sent + i) % opt.window] = t;
            if (!send_all(lines.bytes + at * lines.line_bytes, count * lines.line_bytes)) {
                atomic_store(&writer_failed, true);
                break;
            }
            sent += count;
            at += count;
            atomic_store(&lines_sent, sent);
            if (at == lines.count) {
                lines_stamp(&lines, lines.next_pass_id);
                at = 0;
            }
        }
        if (sent == answered || atomic_load(&writer_failed)) break;
        ssize_t got = recv(sock, chunk, sizeof chunk, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        double t = now();
        tally_add(&tally, chunk, (size_t)got);
        for (uint64_t all = tally_answered(&tally); answered < all; answered++)
            if (edge_count > 0 && !measured) histogram_add(t - sent_at[answered % opt.window]);
        measured = measured || edges_pass(t, tally.received, answered);
    }
}

/* ---- The command line --------------------------------------------------------------------------------------- */

static const struct option long_options[] = {
    {"host", required_argument, NULL, 'h'},       {"port", required_argument, NULL, 'p'},
    {"token", required_argument, NULL, 't'},      {"mode", required_argument, NULL, 'm'},
    {"window", required_argument, NULL, 'w'},     {"payload", required_argument, NULL, 'b'},
    {"warmup", required_argument, NULL, 'u'},     {"seconds", required_argument, NULL, 's'},
    {"first-id", required_argument, NULL, 'i'},   {"records", required_argument, NULL, 'n'},
    {"slices", required_argument, NULL, 'c'},     {"server-pid", required_argument, NULL, 'P'},
    {"connect", required_argument, NULL, 'C'},    {"drain", required_argument, NULL, 'D'},
    {"no-replies", no_argument, NULL, 'r'},       {"payloads", required_argument, NULL, 'f'},
    {NULL, 0, NULL, 0},
};

static void set_option(int c, const char *value) {
    switch (c) {
    case 'h': opt.host = value; break;
    case 'p': opt.port = value; break;
    case 't': opt.token = value; break;
    case 'w': opt.window = strtoul(value, NULL, 10); break;
    case 'b': opt.payload_bytes = strtoul(value, NULL, 10); break;
    case 'f': opt.payloads = value; break;
    case 'u': opt.warmup_s = atof(value); break;
    case 's': opt.seconds = atof(value); break;
    case 'i': opt.first_id = strtoull(value, NULL, 10); break;
    case 'n': opt.records = strtoull(value, NULL, 10); break;
    case 'c': opt.slices = atoi(value); break;
    case 'P': opt.server_pid = atol(value); break;
    case 'C': opt.connect_s = atof(value); break;
    case 'D': opt.drain_s = atof(value); break;
    case 'r': opt.replies = false; break;
    case 'm':
        opt.mode = strcmp(value, "full") == 0 ? MODE_FULL : MODE_WINDOW;
        if (strcmp(value, "stop") == 0)
            opt.window = 1;
        else if (strcmp(value, "full") != 0 && strcmp(value, "window") != 0)
            fail(EXIT_USAGE, "--mode is full, window or stop", value);
        break;
    default: exit(EXIT_USAGE);
    }
}

static void read_options(int argc, char **argv) {
    for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) set_option(c, optarg);
    if (!opt.port) fail(EXIT_USAGE, "--port is needed", NULL);
    if (opt.window < 1 || opt.window > MAX_WINDOW) fail(EXIT_USAGE, "--window is 1 to 65536", NULL);
    if (opt.slices < 1 || opt.slices > MAX_SLICES) fail(EXIT_USAGE, "--slices is 1 to 1000", NULL);
    if (opt.mode == MODE_WINDOW && !opt.replies) fail(EXIT_USAGE, "--no-replies needs --mode full", NULL);
    if (opt.records && opt.records < (uint64_t)opt.slices) fail(EXIT_USAGE, "--records is at least --slices", NULL);
    if (!opt.first_id) opt.first_id = (uint64_t)time(NULL) * 1000000;
    if (opt.first_id >= UINT64_C(9000000000000000)) fail(EXIT_USAGE, "--first-id has at most 16 digits", NULL);
}

static void print_edge_pair(const struct edge *from, const struct edge *to) {
    printf("{\"seconds\": %.9f, \"received\": %" PRIu64 ", \"answered\": %" PRIu64, to->at - from->at,
           to->received - from->received, to->answered - from->answered);
    if (from->server_cpu >= 0 && to->server_cpu >= 0)
        printf(", \"server_cpu_s\": %.9f", to->server_cpu - from->server_cpu);
    printf(", \"own_cpu_s\": %.6f}", to->own_cpu - from->own_cpu);
}

/* A reply may hold anything: keep what JSON can quote plainly. */
static void print_sample(const char *text) {
    putchar('"');
    for (; *text; text++) putchar(*text >= ' ' && *text < 127 && *text != '"' && *text != '\\' ? *text : '?');
    putchar('"');
}

static void print_result(void) {
    uint64_t sent = atomic_load(&lines_sent);
    printf("{\"sent\": %" PRIu64 ", \"received\": %" PRIu64 ", \"queue_full\": %" PRIu64 ", \"other\": %" PRIu64, sent,
           tally.received, tally.queue_full, tally.other);
    printf(", \"other_sample\": ");
    print_sample(tally.other_sample);
    printf(", \"line_bytes\": %zu, \"next_id\": %" PRIu64, lines.line_bytes, lines.next_pass_id + lines.count);
    if (histogram_total)
        printf(", \"p50_ns\": %" PRIu64 ", \"p99_ns\": %" PRIu64, histogram_percentile(0.50),
               histogram_percentile(0.99));
    printf(", \"slices\": [");
    for (int i = 0; i + 1 < edge_count; i++) {
        if (i) printf(", ");
        print_edge_pair(&edges[i], &edges[i + 1]);
    }
    printf("]}\n");
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    pattern = malloc(RECEIVE_BYTES + RECEIVED_BYTES * 2);
    if (!pattern) fail(EXIT_UNAVAILABLE, "no memory", NULL);
    for (size_t i = 0; i < RECEIVE_BYTES + RECEIVED_BYTES * 2; i++) pattern[i] = RECEIVED[i % RECEIVED_BYTES];
    lines_build(&lines, opt.payload_bytes, opt.first_id);
    connect_and_authenticate();
    if (opt.mode == MODE_FULL)
        run_full();
    else
        run_window();
    close(sock);
    if (edge_count <= opt.slices)
        fail(EXIT_TRY_LATER, "the connection ended before the measurement did", strerror(errno));
    uint64_t sent = atomic_load(&lines_sent);
    if (opt.replies && tally_answered(&tally) < sent) fail(EXIT_TRY_LATER, "some lines were never answered", NULL);
    print_result();
    return 0;
}
