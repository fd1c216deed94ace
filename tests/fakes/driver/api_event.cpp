// Events. The stand-in's GPU is done with an event when it is recorded. Its clock goes on by a
// quarter of a millisecond with each, so that times between events are exact.

#include "driver/call.h"
#include "driver/cuda.h"
#include "driver/truth_writer.h"

#include <atomic>
#include <cstdint>

namespace standin {
namespace {

using truth::Function;

constexpr float kMillisecondsPerTick = 0.25F;

struct EventObject {
    std::atomic<std::int64_t> recorded_at = 0;  // in ticks; 0: not yet
    std::atomic<bool> is_fixed = false;         // standin_set_elapsed
    std::atomic<float> fixed = 0;
};

std::atomic<std::int64_t> g_clock = 1;

EventObject *object(Event event) {
    return static_cast<EventObject *>(event);
}

int create(Event *event) {
    if (event == nullptr) {
        return kInvalidValue;
    }
    *event = new EventObject;
    return kSuccess;
}

int destroy(Event event) {
    if (event == nullptr) {
        return kInvalidResourceHandle;
    }
    delete object(event);
    return kSuccess;
}

int record(Event event) {
    if (event == nullptr) {
        return kInvalidResourceHandle;
    }
    object(event)->recorded_at = g_clock.fetch_add(1);
    return kSuccess;
}

int elapsed(const Call &open, float *milliseconds, Event start, Event end) {
    if (milliseconds == nullptr) {
        return kInvalidValue;
    }
    if (start == nullptr || end == nullptr) {
        return kInvalidResourceHandle;
    }
    const std::int64_t from = object(start)->recorded_at;
    const std::int64_t to = object(end)->recorded_at;
    if (from == 0 || to == 0) {
        return kInvalidResourceHandle;
    }
    const float value = object(end)->is_fixed
                            ? object(end)->fixed.load()
                            : static_cast<float>(to - from) * kMillisecondsPerTick;
    *milliseconds = value;
    if (counts(open)) {
        count_elapsed(value);
    }
    run_hook(open);
    return kSuccess;
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE(cuEventCreate, (Event * event, unsigned /*flags*/),
               call(self, [&](const Call &) { return create(event); }))
STANDIN_DEFINE(cuEventDestroy_v2, (Event event),
               call(self, [&](const Call &) { return destroy(event); }))
STANDIN_DEFINE(cuEventRecord, (Event event, Stream /*stream*/),
               call(self, [&](const Call &) { return record(event); }))
STANDIN_DEFINE(cuEventSynchronize, (Event event), call(self, [&](const Call &open) -> int {
                   if (event == nullptr) {
                       return kInvalidResourceHandle;
                   }
                   run_hook(open);
                   return kSuccess;
               }))
STANDIN_DEFINE(cuEventElapsedTime, (float *milliseconds, Event start, Event end),
               call(self,
                    [&](const Call &open) { return elapsed(open, milliseconds, start, end); }))
STANDIN_DEFINE(cuEventElapsedTime_v2, (float *milliseconds, Event start, Event end),
               call(self,
                    [&](const Call &open) { return elapsed(open, milliseconds, start, end); }))

STANDIN_EXPORT void standin_set_elapsed(Event end, float milliseconds) {
    object(end)->fixed = milliseconds;
    object(end)->is_fixed = true;
}

}  // extern "C"
