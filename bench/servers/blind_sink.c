/* The blind-answer sink: what any server that answers every line can at best reach on this machine.
 *
 * It looks for nothing but line feeds: as many as a received chunk holds, that many RECEIVED go back in one write. The
 * first line of a connection is the authentication line and gets ACK. No id is read, nothing is kept.
 *
 *   blind_sink PORT
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK_BYTES = 512 * 1024, REPLY_BYTES = 9, REPLIES_AT_ONCE = 65536, LANES = 32 };

static char chunk[CHUNK_BYTES];
static char replies[REPLY_BYTES * REPLIES_AT_ONCE];

/* Count in lanes of one byte, emptied before they can overflow: a shape that compilers turn into vector code. */
static size_t count_lf(const char *data, size_t length) {
    size_t total = 0, at = 0;
    while (length - at >= LANES) {
        uint8_t lanes[LANES] = {0};
        size_t rounds = (length - at) / LANES;
        if (rounds > 255) rounds = 255;
        for (size_t r = 0; r < rounds; r++, at += LANES)
            for (int i = 0; i < LANES; i++) lanes[i] += data[at + (size_t)i] == '\n';
        for (int i = 0; i < LANES; i++) total += lanes[i];
    }
    for (; at < length; at++) total += data[at] == '\n';
    return total;
}

static bool send_all(int sock, const char *data, size_t length) {
    while (length) {
        ssize_t sent = send(sock, data, length, 0);
        if (sent <= 0) return false;
        data += sent;
        length -= (size_t)sent;
    }
    return true;
}

static bool answer(int sock, size_t count) {
    for (; count > REPLIES_AT_ONCE; count -= REPLIES_AT_ONCE)
        if (!send_all(sock, replies, sizeof replies)) return false;
    return send_all(sock, replies, count * REPLY_BYTES);
}

static void serve(int sock) {
    bool authenticated = false;
    for (;;) {
        ssize_t got = recv(sock, chunk, sizeof chunk, 0);
        if (got <= 0) return;
        size_t count = count_lf(chunk, (size_t)got);
        if (!authenticated && count) {
            authenticated = true;
            if (!send_all(sock, "ACK\n", 4)) return;
            count--;
        }
        if (count && !answer(sock, count)) return;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: blind_sink PORT\n"), 64;
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < sizeof replies; i++) replies[i] = "RECEIVED\n"[i % REPLY_BYTES];
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 8))
        return perror("blind_sink"), 69;
    for (;;) {
        int sock = accept(listener, NULL, NULL);
        if (sock < 0) continue;
        setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        serve(sock);
        close(sock);
    }
}
