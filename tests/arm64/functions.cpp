// Functions of arm64 that are left in all the ways that compilers know. The program prints how
// often each was called. Built for arm64, and run by qemu-user under a debugger (exits_test.py).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr int function_count = 16;
unsigned long calls[function_count];
volatile long sink;

}  // namespace

#define EXPORTED extern "C" __attribute__((noinline, noclone, used))

EXPORTED long plain(long x) {
    calls[0]++;
    return x * 3 + 1;
}

EXPORTED long early(long x) {
    calls[1]++;
    if (x % 3 == 0) {
        return 1;
    }
    sink = plain(x);
    if (x % 5 == 0) {
        return sink;
    }
    return plain(sink) + 2;
}

EXPORTED long tail(long x) {
    calls[2]++;
    return early(x + 1);
}

EXPORTED long maybe_tail(long x) {
    calls[3]++;
    if (x % 2 == 0) {
        return tail(x);
    }
    return x;
}

EXPORTED long indirect(long (*function)(long), long x) {
    calls[4]++;
    return function(x);
}

EXPORTED long choose(long x) {
    calls[5]++;
    switch (x % 9) {
        case 0:
            return plain(x);
        case 1:
            sink = x;
            break;
        case 2:
            return tail(x);
        case 3:
            return x * 7;
        case 4:
            sink = early(x);
            return sink;
        case 5:
            return indirect(plain, x);
        case 6:
            return x - 1;
        default:
            sink = x + 2;
    }
    return sink;
}

EXPORTED long recurse(long x) {
    calls[6]++;
    return x <= 0 ? 1 : recurse(x - 1) + recurse(x - 3) + plain(x);
}

EXPORTED void nothing() {
    calls[7]++;
}

EXPORTED double floating(double x) {
    calls[8]++;
    return x < 0 ? -x : x * 1.5;
}

EXPORTED long strings(long x) {
    calls[9]++;
    std::map<std::string, std::vector<long>> all;
    for (long i = 0; i < x % 7; i++) {
        all["key " + std::to_string(i % 3)].push_back(i);
    }
    return static_cast<long>(all.size());
}

EXPORTED long large_frame(long x) {
    calls[10]++;
    volatile char frame[70'000];
    frame[x % 70'000] = 1;
    return frame[(x + 1) % 70'000];
}

EXPORTED long throws(long x) {
    calls[11]++;
    if (x % 4 == 0) {
        throw x;
    }
    return x;
}

EXPORTED long catches(long x) {
    calls[12]++;
    try {
        return throws(x);
    } catch (long value) {
        return -value;
    }
}

EXPORTED long many_arguments(long a, long b, long c, long d, long e, long f, long g, long h, long i,
                             long j) {
    calls[13]++;
    return a + b + c + d + e + f + g + h + i * j;
}

EXPORTED long variable_frame(long x) {
    calls[14]++;
    volatile char *const bytes =
        static_cast<volatile char *>(__builtin_alloca(static_cast<std::size_t>(x % 100 + 16)));
    bytes[x % 16] = 2;
    return bytes[0];
}

EXPORTED long loop(long x) {
    calls[15]++;
    long sum = 0;
    while (x > 1) {
        sum += plain(x);
        x = x % 2 == 0 ? x / 2 : x - 1;
    }
    return sum;
}

int main() {
    for (long i = 0; i < 60; i++) {
        sink = plain(i) + early(i) + tail(i) + maybe_tail(i) + indirect(maybe_tail, i) + choose(i) +
               recurse(i % 6);
        nothing();
        sink = static_cast<long>(floating(static_cast<double>(i - 30))) + strings(i) +
               large_frame(i) + catches(i);
        sink = many_arguments(i, 1, 2, 3, 4, 5, 6, 7, 8, i) + variable_frame(i) + loop(i);
    }
    const char *const names[] = {"plain",    "early",          "tail",           "maybe_tail",
                                 "indirect", "choose",         "recurse",        "nothing",
                                 "floating", "strings",        "large_frame",    "throws",
                                 "catches",  "many_arguments", "variable_frame", "loop"};
    for (int i = 0; i < function_count; i++) {
        std::printf("%s %lu\n", names[i], calls[i]);
    }
}
