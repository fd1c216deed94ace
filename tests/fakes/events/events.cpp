// events NAME GO VALUE...: waits for the file GO, and then asks for the time between two events,
// once for each VALUE, and holds:
//
//   a number of milliseconds, nan, inf    what the driver gives
//   gone                                  1 ms, but the memory that it was put in can no longer be
//                                         read when the call returns
//   unrecorded                            fails: an event was not recorded

#include "cudart/cudart.h"
#include "driver/driver_api.h"
#include "workload/options.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void check(bool is_right, const char *what) {
    if (!is_right) {
        std::fprintf(stderr, "events: %s\n", what);
        std::exit(1);
    }
}

standin::Event make_event(bool is_recorded) {
    standin::Event event = nullptr;
    check(cudaEventCreate(&event) == standin::kSuccess, "no event");
    if (is_recorded) {
        check(cudaEventRecord(event, nullptr) == standin::kSuccess, "no record");
    }
    return event;
}

void take_away(const char *, void *page) {
    mprotect(page, static_cast<std::size_t>(getpagesize()), PROT_NONE);
}

// 1 ms, in memory that is gone.
void ask_in_vain(standin::Event start) {
    const auto bytes = static_cast<std::size_t>(getpagesize());
    void *page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(page != MAP_FAILED, "no memory");
    standin::Event end = make_event(true);
    standin_set_elapsed(end, 1);
    standin_set_hook(take_away, page);
    check(cudaEventElapsedTime(static_cast<float *>(page), start, end) == standin::kSuccess,
          "no time");
    standin_set_hook(nullptr, nullptr);
    munmap(page, bytes);
}

void ask(standin::Event start, const std::string &value) {
    if (value == "gone") {
        ask_in_vain(start);
        return;
    }
    float given = 0;
    standin::Event end = make_event(value != "unrecorded");
    if (value == "unrecorded") {
        check(cudaEventElapsedTime(&given, start, end) == standin::kInvalidResourceHandle,
              "a time");
        return;
    }
    standin_set_elapsed(end, std::strtof(value.c_str(), nullptr));
    check(cudaEventElapsedTime(&given, start, end) == standin::kSuccess, "no time");
}

}  // namespace

int main(int argc, char **argv) {
    check(argc > 2, "usage: events NAME GO VALUE...");
    prctl(PR_SET_NAME, argv[1]);
    demo::watch_stop_signals();
    standin::driver();
    std::printf("ready\n");
    std::fflush(stdout);
    demo::wait_for_file(argv[2]);
    standin::Event start = make_event(true);
    for (int at = 3; at < argc; ++at) {
        ask(start, argv[at]);
    }
    std::printf("holding\n");
    std::fflush(stdout);
    demo::hold();
    return 0;
}
