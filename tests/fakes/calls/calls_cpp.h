// The C++ functions of libcalls.so.1.
#pragma once

#include "calls/calls.h"

namespace calls {

CALLS_TRACED long plain(long number);
// A switch by a table of jumps, and more than one return.
CALLS_TRACED long choose(unsigned which, long number);

// Throws std::runtime_error("thrown"), if told to.
CALLS_TRACED long may_throw(bool throws);
// Has the exception of may_throw() pass through it.
CALLS_TRACED long through(bool throws);
// Catches the exception of through(), and then returns -1.
CALLS_TRACED long catches(bool throws);
// Always throws.
[[noreturn]] CALLS_TRACED void fail(int code);

// These end with a jump to plain(), to its address in a register, and to it for odd numbers only.
CALLS_TRACED long tail(long number);
CALLS_TRACED long tail_indirect(long number);
CALLS_TRACED long maybe_tail(long number);
// A loop whose first instruction is that of the function. `times` is 1 or more, and kLoopStart.
inline constexpr unsigned long kLoopStart = 1UL << 63;
CALLS_TRACED unsigned long loop(unsigned long times);

CALLS_TRACED long recurse(int depth);

template <typename Number>
CALLS_TRACED Number twice(Number number);
extern template long twice<long>(long number);

class __attribute__((visibility("default"))) Shape {
public:
    Shape() = default;
    Shape(const Shape &) = delete;
    Shape &operator=(const Shape &) = delete;
    virtual ~Shape() = default;
    [[nodiscard]] virtual long area() const = 0;
};

class __attribute__((visibility("default"))) Square : public Shape {
public:
    explicit Square(long side) : side_(side) {}
    [[nodiscard]] CALLS_TRACED long area() const override;

private:
    long side_;
};

// Its constructor has two symbols at one address, for itself and for what is derived from it.
class Object {
public:
    CALLS_TRACED explicit Object(long number);
    CALLS_TRACED ~Object();
    Object(const Object &) = delete;
    Object &operator=(const Object &) = delete;
    [[nodiscard]] long number() const { return number_; }

private:
    long number_;
};

// Has a part of its own for what hardly ever happens, numbers that 5 divides.
CALLS_TRACED long rarely(long number);
CALLS_TRACED void wait(long milliseconds);
// As calls_sleep(), returns the sum that it writes.
CALLS_TRACED long sleep(long milliseconds, long b, long c, long d, long e, long *word);
CALLS_TRACED void callback(void (*function)(void *), void *argument);

}  // namespace calls
