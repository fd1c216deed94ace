#include "lives/sockets.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sockets {

namespace {

// A loopback connection, both ends of this process.
struct Pair {
    int client;
    int server;
};

std::vector<Pair> pairs;
std::vector<int> others;

[[noreturn]] void give_up(const char *what) {
    std::perror(what);
    std::_Exit(1);
}

sockaddr_storage loopback(bool v6) {
    sockaddr_storage address{};
    if (v6) {
        auto &six = reinterpret_cast<sockaddr_in6 &>(address);
        six.sin6_family = AF_INET6;
        six.sin6_addr = in6addr_loopback;
    } else {
        auto &four = reinterpret_cast<sockaddr_in &>(address);
        four.sin_family = AF_INET;
        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    return address;
}

// A socket at a port of the kernel's choice, which `address` is.
int bound(int type, sockaddr_storage &address) {
    const int fd = socket(address.ss_family, type | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(address);
    if (fd < 0 || bind(fd, reinterpret_cast<sockaddr *>(&address), size) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size) != 0) {
        give_up("bind");
    }
    return fd;
}

int connect_to(const sockaddr_storage &address, int flags = 0) {
    const int fd = socket(address.ss_family, SOCK_STREAM | flags, 0);
    if (fd < 0) {
        give_up("socket");
    }
    if (connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0 &&
        errno != EINPROGRESS) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

Pair make_pair(int listener, const sockaddr_storage &address) {
    const int client = connect_to(address);
    const int server = accept(listener, nullptr, nullptr);
    if (client < 0 || server < 0) {
        give_up("connect");
    }
    return {client, server};
}

void open_pairs(int count, bool v6) {
    sockaddr_storage address = loopback(v6);
    const int listener = bound(SOCK_STREAM, address);
    listen(listener, 64);
    for (int i = 0; i < count; i++) {
        pairs.push_back(make_pair(listener, address));
    }
    close(listener);
}

// In a network namespace of its own, in which all of 10.0.0.0/8 is at its loopback interface.
void make_network() {
    const int fd = unshare(CLONE_NEWNET) == 0 ? socket(AF_INET, SOCK_DGRAM, 0) : -1;
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) != 0) {
        give_up("a network");
    }
    auto &address = reinterpret_cast<sockaddr_in &>(request.ifr_addr);
    address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = inet_addr("10.9.0.1");
    std::strcpy(request.ifr_name, "lo:1");
    if (ioctl(fd, SIOCSIFADDR, &request) != 0) {
        give_up("an address");
    }
    close(fd);
}

void open_far_pairs(int count) {
    make_network();
    sockaddr_storage address = loopback(false);
    auto &four = reinterpret_cast<sockaddr_in &>(address);
    four.sin_addr.s_addr = inet_addr("10.9.0.2");
    const int listener = bound(SOCK_STREAM, address);
    listen(listener, 64);
    for (int i = 0; i < count; i++) {
        sockaddr_in from{};
        from.sin_family = AF_INET;
        from.sin_addr.s_addr = inet_addr("10.9.0.1");
        const int client = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(client, reinterpret_cast<sockaddr *>(&from), sizeof(from)) != 0 ||
            connect(client, reinterpret_cast<sockaddr *>(&address), sizeof(four)) != 0) {
            give_up("connect");
        }
        pairs.push_back({client, accept(listener, nullptr, nullptr)});
    }
    close(listener);
}

// In a network with two ports.
void find_no_port(int count) {
    make_network();
    sockaddr_storage address = loopback(false);
    const int listener = bound(SOCK_STREAM, address);
    listen(listener, 64);
    std::FILE *const range = std::fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");
    if (range == nullptr || std::fputs("40000 40001", range) < 0 || std::fclose(range) != 0) {
        give_up("a range of ports");
    }
    for (int failed = 0; failed < count;) {
        const int fd = connect_to(address);
        if (fd < 0 && errno != EADDRNOTAVAIL) {
            give_up("connect");
        }
        failed += fd < 0 ? 1 : 0;
    }
    close(listener);
}

void serve(int count) {
    sockaddr_storage address = loopback(false);
    const int listener = bound(SOCK_STREAM, address);
    listen(listener, 64);
    std::printf("port %d\n", ntohs(reinterpret_cast<sockaddr_in &>(address).sin_port));
    std::fflush(stdout);
    for (int i = 0; i < count; i++) {
        const int fd = accept(listener, nullptr, nullptr);
        char block[4096];
        while (read(fd, block, sizeof(block)) > 0) {
        }
        close(fd);
    }
    close(listener);
}

void call_up(int port, int count, std::size_t bytes) {
    sockaddr_storage address = loopback(false);
    reinterpret_cast<sockaddr_in &>(address).sin_port = htons(static_cast<std::uint16_t>(port));
    const std::string text(bytes, 'x');
    for (int i = 0; i < count; i++) {
        const int fd = connect_to(address);
        if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(bytes)) {
            give_up("a call");
        }
        close(fd);
    }
}

void connect_and_close(int count) {
    sockaddr_storage address = loopback(false);
    const int listener = bound(SOCK_STREAM, address);
    listen(listener, 64);
    for (int i = 0; i < count; i++) {
        const Pair pair = make_pair(listener, address);
        close(pair.client);
        close(pair.server);
    }
    close(listener);
}

void be_refused(int count) {
    sockaddr_storage address = loopback(false);
    close(bound(SOCK_STREAM, address));
    for (int i = 0; i < count; i++) {
        if (connect_to(address) >= 0 || errno != ECONNREFUSED) {
            give_up("a refused connect");
        }
    }
}

void send_all(int to, int from, std::size_t bytes) {
    std::vector<char> block(std::size_t{1} << 14U, 'x');
    for (std::size_t left = bytes; left > 0;) {
        const auto part = static_cast<ssize_t>(std::min(left, block.size()));
        if (send(to, block.data(), static_cast<std::size_t>(part), 0) != part) {
            give_up("send");
        }
        for (ssize_t got = 0; got < part;) {
            const ssize_t now = recv(from, block.data(), static_cast<std::size_t>(part - got), 0);
            if (now <= 0) {
                give_up("recv");
            }
            got += now;
        }
        left -= static_cast<std::size_t>(part);
    }
}

// Of each pair, the client to the server.
void say(std::size_t bytes) {
    for (const Pair &pair : pairs) {
        send_all(pair.client, pair.server, bytes);
    }
}

void hang_up() {
    for (const Pair &pair : pairs) {
        close(pair.client);
        close(pair.server);
    }
    pairs.clear();
    for (const int fd : others) {
        close(fd);
    }
    others.clear();
}

tcp_info info_of(int fd) {
    tcp_info info{};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
        give_up("TCP_INFO");
    }
    return info;
}

// Of all its sockets: "info SENT RECEIVED SEGMENTS RETRANSMITS".
void print_info() {
    unsigned long long sent = 0;
    unsigned long long received = 0;
    unsigned long long segments = 0;
    unsigned long long retransmits = 0;
    const auto add = [&](int fd) {
        const tcp_info info = info_of(fd);
        sent += info.tcpi_bytes_sent - info.tcpi_bytes_retrans;
        received += info.tcpi_bytes_received;
        segments += info.tcpi_segs_out;
        retransmits += info.tcpi_total_retrans;
    };
    for (const Pair &pair : pairs) {
        add(pair.client);
        add(pair.server);
    }
    for (const int fd : others) {
        add(fd);
    }
    std::printf("info %llu %llu %llu %llu\n", sent, received, segments, retransmits);
    std::fflush(stdout);
}

// "rtt PORT MICROSECONDS" of each client.
void print_rtts() {
    for (const Pair &pair : pairs) {
        sockaddr_in address{};
        socklen_t size = sizeof(address);
        getsockname(pair.client, reinterpret_cast<sockaddr *>(&address), &size);
        std::printf("rtt %d %u\n", ntohs(address.sin_port), info_of(pair.client).tcpi_rtt);
    }
    std::fflush(stdout);
}

// The servers hear nothing until their clients have sent again `times` times.
void lose(unsigned times) {
    sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &drop};
    for (const Pair &pair : pairs) {
        if (setsockopt(pair.server, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0) {
            give_up("a filter");
        }
        (void)!write(pair.client, "lost?", 5);
    }
    for (const Pair &pair : pairs) {
        while (info_of(pair.client).tcpi_total_retrans < times) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    for (const Pair &pair : pairs) {
        int none = 0;
        setsockopt(pair.server, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
        char text[5];
        if (recv(pair.server, text, sizeof(text), MSG_WAITALL) != sizeof(text)) {
            give_up("recv");
        }
    }
}

// To a listener that takes two connections and no more; they stay.
void be_ignored(int count) {
    sockaddr_storage address = loopback(false);
    const int listener = bound(SOCK_STREAM, address);
    listen(listener, 1);
    (void)!dup(listener);
    for (int i = 0; i < 2 + count; i++) {
        others.push_back(connect_to(address, SOCK_NONBLOCK));
    }
}

void share(std::size_t bytes) {
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        say(bytes);
        std::_Exit(0);
    }
    (void)waitpid(child, nullptr, 0);
}

void talk_shortly(int bytes) {
    const pid_t child = fork();
    if (child == 0) {
        pairs.clear();  // its parent's
        open_pairs(1, false);
        say(static_cast<std::size_t>(bytes));
        std::_Exit(0);  // the kernel closes them
    }
    (void)waitpid(child, nullptr, 0);
}

// "lost N" of `count` datagrams of a kilobyte to a socket with hardly any room.
void lose_datagrams(int count) {
    sockaddr_storage address = loopback(false);
    const int receiver = bound(SOCK_DGRAM, address);
    const int room = 2304;
    setsockopt(receiver, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    const int sender = socket(AF_INET, SOCK_DGRAM, 0);
    char block[1000] = "";
    for (int i = 0; i < count; i++) {
        sendto(sender, block, sizeof(block), 0, reinterpret_cast<sockaddr *>(&address),
               sizeof(address));
    }
    int lost = count;
    while (recv(receiver, block, sizeof(block), MSG_DONTWAIT) > 0) {
        lost--;
    }
    close(sender);
    close(receiver);
    std::printf("lost %d\n", lost);
    std::fflush(stdout);
}

}  // namespace

int run(const std::string &step, char **words, int count) {
    if (step == "hang_up") {
        hang_up();
    } else if (step == "info") {
        print_info();
    } else if (step == "rtts") {
        print_rtts();
    } else {
        if (count == 0) {
            return -1;
        }
        const auto word = [&](int at) {
            return static_cast<int>(std::strtol(words[at], nullptr, 10));
        };
        if (step == "calls" && count > 2) {
            call_up(word(0), word(1), static_cast<std::size_t>(word(2)));
            return 3;
        }
        const int number = word(0);
        if (step == "connects") {
            connect_and_close(number);
        } else if (step == "refused") {
            be_refused(number);
        } else if (step == "pairs" || step == "pairs6") {
            open_pairs(number, step == "pairs6");
        } else if (step == "say") {
            say(static_cast<std::size_t>(number));
        } else if (step == "far") {
            open_far_pairs(number);
        } else if (step == "portless") {
            find_no_port(number);
        } else if (step == "serves") {
            serve(number);
        } else if (step == "share") {
            share(static_cast<std::size_t>(number));
        } else if (step == "short_talk") {
            talk_shortly(number);
        } else if (step == "lose") {
            lose(static_cast<unsigned>(number));
        } else if (step == "ignored") {
            be_ignored(number);
        } else if (step == "datagrams") {
            lose_datagrams(number);
        } else {
            return -1;
        }
        return 1;
    }
    return 0;
}

}  // namespace sockets
