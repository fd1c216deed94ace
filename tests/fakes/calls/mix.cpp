// Threads that call random functions. The same seed makes the same calls, whatever the threads'
// order.
#include <atomic>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <vector>

#include "calls/around.h"
#include "calls/calls_cpp.h"
#include "calls/random.h"
#include "calls/scenario.h"
#include "workload/options.h"

namespace scenario {

namespace {

using Action = bool (*)(Random &random);

long sleep_of(Random &random) {
    return random.one_in(25) ? COUNT_SLEEP_MS : 0;
}

// Half of the calls succeed.
template <int (*function)(int), calls_function id, int... codes>
bool status(Random &random) {
    static constexpr int kCodes[] = {codes...};
    const int code = random.one_in(2) ? random.one_of(kCodes) : 0;
    return around(id, [&] { return function(code); }) == code;
}

bool plain(Random &random) {
    const long n = random.number();
    return around(CALLS_plain, [&] { return calls_plain(n); }) == 3 * n + 1;
}

bool eight(Random &random) {
    const long n = random.number();
    return around(CALLS_eight, [&] {
               return calls_eight(n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7);
           }) == 36 * n + 168;
}

bool find(Random &random) {
    const long key = random.one_in(3) ? 0 : random.number() + 1;
    void *found = around(CALLS_find, [&] { return calls_find(key); });
    return (found == nullptr) == (key == 0);
}

constexpr int kErrnos[] = {ENOENT, EACCES, EAGAIN, ENOMEM};

template <auto function, calls_function id>
bool with_errno(Random &random) {
    const int error = random.one_in(3) ? random.one_of(kErrnos) : 0;
    // Not around(): the clock may change errno.
    const std::uint64_t before = count_now();
    const auto result = function(error);
    const int found = errno;
    count_around(id, before);
    if constexpr (std::is_pointer_v<decltype(function(0))>) {
        return (result == nullptr) == (error != 0) && found == (error != 0 ? error : EIO);
    } else {
        return result == (error != 0 ? -1 : 0) && found == (error != 0 ? error : EIO);
    }
}

bool recurse(Random &random) {
    const int depth = static_cast<int>(random.below(12));
    return around(CALLS_recurse, [&] { return calls_recurse(depth); }) == depth * (depth + 1) / 2;
}

bool outer(Random &random) {
    const long n = random.number();
    return around(CALLS_outer, [&] { return calls_outer(n); }) == n + 2;
}

bool wait(Random &random) {
    around(CALLS_wait, [&] { calls_wait(sleep_of(random)); });
    return true;
}

bool wait_long(Random &random) {
    around(CALLS_wait_long, [&] { calls_wait_long(sleep_of(random)); });
    return true;
}

// Another function that is traced, called from the middle of one.
void call_plain(void *result) {
    *static_cast<long *>(result) = around(CALLS_plain, [] { return calls_plain(2); });
}

bool callback(Random & /*random*/) {
    long result = 0;
    around(CALLS_callback, [&] { calls_callback(call_plain, &result); });
    return result == 7;
}

bool stay(Random & /*random*/) {
    return around(CALLS_jump, [] { return calls_jump(nullptr); }) == 1 &&
           around(CALLS_end_thread, [] { return calls_end_thread(0); }) == 1;
}

bool cpp_plain(Random &random) {
    const long n = random.number();
    return around(CALLS_cpp_plain, [&] { return calls::plain(n); }) == 5 * n + 2;
}

bool cpp_choose(Random &random) {
    const auto which = static_cast<unsigned>(random.below(8));
    const long n = random.number();
    const long expected[] = {n + 17, n * 3, n - 9, n ^ 0x55, n / 7, ~n, -1, -1};
    return around(CALLS_cpp_choose, [&] { return calls::choose(which, n); }) == expected[which];
}

bool cpp_no_throw(Random & /*random*/) {
    return around(CALLS_cpp_catches, [] { return calls::catches(false); }) == 3;
}

bool cpp_tail(Random &random) {
    const long n = random.number();
    return around({CALLS_cpp_tail, CALLS_cpp_plain}, [&] { return calls::tail(n); }) == 5 * n + 2;
}

bool cpp_tail_indirect(Random &random) {
    const long n = random.number();
    return around({CALLS_cpp_tail_indirect, CALLS_cpp_plain},
                  [&] { return calls::tail_indirect(n); }) == 5 * n + 2;
}

bool cpp_maybe_tail(Random &random) {
    const long n = random.number();
    if (n % 2 == 0) {
        return around(CALLS_cpp_maybe_tail, [&] { return calls::maybe_tail(n); }) == n;
    }
    return around({CALLS_cpp_maybe_tail, CALLS_cpp_plain}, [&] { return calls::maybe_tail(n); }) ==
           5 * n + 2;
}

bool cpp_loop(Random &random) {
    const auto times = 1 + random.below(5);
    return around(CALLS_cpp_loop, [&] { return calls::loop(calls::kLoopStart | times); }) == 0;
}

bool cpp_recurse(Random &random) {
    const int depth = static_cast<int>(random.below(12));
    return around(CALLS_cpp_recurse, [&] { return calls::recurse(depth); }) ==
           depth * (depth + 1) / 2;
}

bool cpp_twice(Random &random) {
    const long n = random.number();
    return around(CALLS_cpp_twice, [&] { return calls::twice<long>(n); }) == 2 * n;
}

bool cpp_area(Random &random) {
    const long side = random.number();
    const calls::Square square(side);
    const calls::Shape *volatile shape = &square;
    return around(CALLS_cpp_area, [&] { return shape->area(); }) == side * side;
}

// What is derived from it calls the constructor and the destructor by their other symbols.
class Derived : public calls::Object {
public:
    using Object::Object;
};

template <typename Kind>
bool live(long number) {
    alignas(Kind) unsigned char memory[sizeof(Kind)];
    auto *object = around(CALLS_cpp_create, [&] { return new (memory) Kind(number); });
    const bool right = object->number() == number;
    around(CALLS_cpp_destroy, [&] { object->~Kind(); });
    return right;
}

bool cpp_object(Random &random) {
    const long n = random.number();
    return random.one_in(2) ? live<Derived>(n) : live<calls::Object>(n);
}

bool cpp_rarely(Random &random) {
    const long n = random.number();
    return around(CALLS_cpp_rarely, [&] { return calls::rarely(n); }) ==
           n + (n % 5 == 0 ? n / 5 : 0);
}

bool cpp_wait(Random &random) {
    around(CALLS_cpp_wait, [&] { calls::wait(sleep_of(random)); });
    return true;
}

bool cpp_callback(Random & /*random*/) {
    long result = 0;
    around(CALLS_cpp_callback, [&] { calls::callback(call_plain, &result); });
    return result == 7;
}

bool cpp_throw(Random &random) {
    if (random.one_in(2)) {
        return around(CALLS_cpp_catches, [] { return calls::catches(true); }) == -1;
    }
    try {
        around(CALLS_cpp_through, [] { return calls::through(true); });
    } catch (const std::runtime_error &) {
        return true;
    }
    return false;
}

bool cpp_fail(Random & /*random*/) {
    try {
        calls::fail(5);
    } catch (const std::runtime_error &) {
        return true;
    }
}

bool jump_out(Random & /*random*/) {
    return jump_out_of_calls();
}

constexpr Action kReturning[] = {
    plain,
    eight,
    status<calls_status, CALLS_status, 1, 7, 250, -22>,
    status<calls_dirty, CALLS_dirty, 2, -1>,
    // CUBLAS_STATUS_NOT_INITIALIZED, ..._INVALID_VALUE, ..._EXECUTION_FAILED
    status<calls_cublas, CALLS_cublas, 1, 7, 13>,
    // CUDNN_STATUS_BAD_PARAM, ..._NOT_SUPPORTED, ..._EXECUTION_FAILED
    status<calls_cudnn, CALLS_cudnn, 2000, 3000, 5000>,
    // ncclUnhandledCudaError, ncclSystemError, ncclInvalidUsage
    status<calls_nccl, CALLS_nccl, 1, 2, 5>,
    // cudaErrorMemoryAllocation, cudaErrorNotReady
    status<calls_cuda, CALLS_cuda, 2, 600>,
    find,
    with_errno<calls_open, CALLS_open>,
    with_errno<calls_seek, CALLS_seek>,
    with_errno<calls_map, CALLS_map>,
    recurse,
    outer,
    wait,
    wait_long,
    callback,
    stay,
    cpp_plain,
    cpp_choose,
    cpp_no_throw,
    cpp_tail,
    cpp_tail_indirect,
    cpp_maybe_tail,
    cpp_loop,
    cpp_recurse,
    cpp_twice,
    cpp_area,
    cpp_object,
    cpp_rarely,
    cpp_wait,
    cpp_callback,
};

constexpr Action kLeaving[] = {cpp_throw, cpp_fail, jump_out};

bool run_threads(const Options &options, std::uint64_t actions) {
    std::atomic<bool> passed = true;
    const auto work = [&](std::uint64_t thread) {
        Random random(options.seed * 1'000'003 + thread);
        for (std::uint64_t i = 0;
             options.until_stopped ? !demo::stop_requested() : i < options.iterations; i++) {
            const std::uint64_t at = random.below(actions);
            const Action action =
                at < std::size(kReturning) ? kReturning[at] : kLeaving[at - std::size(kReturning)];
            if (!action(random)) {
                passed = false;
            }
        }
    };
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < options.threads; thread++) {
        threads.emplace_back(work, thread);
    }
    threads.clear();
    return passed;
}

}  // namespace

bool mix(const Options &options) {
    return run_threads(options, std::size(kReturning));
}

bool mix_with_leaving(const Options &options) {
    return run_threads(options, std::size(kReturning) + std::size(kLeaving));
}

}  // namespace scenario
