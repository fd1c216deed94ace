#include "calls/calls_cpp.h"

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>

#include "calls/count.h"

namespace calls {

long plain(long number) {
    const std::uint64_t began = count_begin(CALLS_cpp_plain);
    count_end(CALLS_cpp_plain, began);
    return 5 * number + 2;
}

long choose(unsigned which, long number) {
    const std::uint64_t began = count_begin(CALLS_cpp_choose);
    switch (which) {
        case 0:
            count_end(CALLS_cpp_choose, began);
            return number + 17;
        case 1:
            count_end(CALLS_cpp_choose, began);
            return number * 3;
        case 2:
            count_end(CALLS_cpp_choose, began);
            return number - 9;
        case 3:
            count_end(CALLS_cpp_choose, began);
            return number ^ 0x55;
        case 4:
            count_end(CALLS_cpp_choose, began);
            return number / 7;
        case 5:
            count_end(CALLS_cpp_choose, began);
            return ~number;
        default:
            count_end(CALLS_cpp_choose, began);
            return -1;
    }
}

long may_throw(bool throws) {
    const std::uint64_t began = count_begin(CALLS_cpp_may_throw);
    if (throws) {
        throw std::runtime_error("thrown");
    }
    count_end(CALLS_cpp_may_throw, began);
    return 1;
}

long through(bool throws) {
    const std::uint64_t began = count_begin(CALLS_cpp_through);
    const std::uint64_t before = count_now();
    const long result = may_throw(throws);
    count_around(CALLS_cpp_may_throw, before);
    count_end(CALLS_cpp_through, began);
    return result + 1;
}

long catches(bool throws) {
    const std::uint64_t began = count_begin(CALLS_cpp_catches);
    long result = -1;
    try {
        const std::uint64_t before = count_now();
        result = through(throws) + 1;
        count_around(CALLS_cpp_through, before);
    } catch (const std::runtime_error &) {
        // The result says so.
    }
    count_end(CALLS_cpp_catches, began);
    return result;
}

void fail(int code) {
    count_begin(CALLS_cpp_fail);
    throw std::runtime_error("failed with " + std::to_string(code));
}

long recurse(int depth) {
    const std::uint64_t began = count_begin(CALLS_cpp_recurse);
    long sum = depth;
    if (depth > 0) {
        const std::uint64_t before = count_now();
        sum += recurse(depth - 1);
        count_around(CALLS_cpp_recurse, before);
    }
    count_end(CALLS_cpp_recurse, began);
    return sum;
}

template <typename Number>
Number twice(Number number) {
    const std::uint64_t began = count_begin(CALLS_cpp_twice);
    count_end(CALLS_cpp_twice, began);
    return 2 * number;
}

template long twice<long>(long number);

long Square::area() const {
    const std::uint64_t began = count_begin(CALLS_cpp_area);
    const long area = side_ * side_;
    count_end(CALLS_cpp_area, began);
    return area;
}

Object::Object(long number) : number_(number) {
    const std::uint64_t began = count_begin(CALLS_cpp_create);
    count_end(CALLS_cpp_create, began);
}

Object::~Object() {
    const std::uint64_t began = count_begin(CALLS_cpp_destroy);
    count_end(CALLS_cpp_destroy, began);
}

// What calls a cold function is cold itself.
__attribute__((cold, noinline)) static long happens_rarely(long number) {
    return number / 5;
}

long rarely(long number) {
    const std::uint64_t began = count_begin(CALLS_cpp_rarely);
    long result = number;
    if (number % 5 == 0) {
        result += happens_rarely(number);
    }
    count_end(CALLS_cpp_rarely, began);
    return result;
}

void wait(long milliseconds) {
    const std::uint64_t began = count_begin(CALLS_cpp_wait);
    if (milliseconds > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    }
    count_end(CALLS_cpp_wait, began);
}

long sleep(long milliseconds, long b, long c, long d, long e, long *word) {
    const std::uint64_t began = count_begin(CALLS_cpp_sleep);
    if (milliseconds > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    }
    *word = b + c + d + e;
    count_end(CALLS_cpp_sleep, began);
    return *word;
}

void callback(void (*function)(void *), void *argument) {
    const std::uint64_t began = count_begin(CALLS_cpp_callback);
    function(argument);
    count_end(CALLS_cpp_callback, began);
}

}  // namespace calls
