// Captures that end without a graph.

#include "graphs/scenario.h"

#include <functional>
#include <thread>

namespace graphs {
namespace {

using namespace standin;

// Begins, does what is forbidden, and sees that the capture is good for nothing any more.
void spoil(Thread &thread, Stream stream, int mode, int error,
           const std::function<int()> &forbidden) {
    Graph graph = nullptr;
    int status = kNotCapturing;
    OK(thread.calls.begin(stream, mode));
    OK(thread.calls.launch({0, {1, 1, 1}}, stream));
    EXPECT(error, forbidden());
    OK(thread.calls.status(stream, &status));
    expect(status, kCaptureIsInvalid, "the status", __LINE__);
    EXPECT(kCaptureInvalidated, thread.calls.launch({0, {1, 1, 1}}, stream));
    EXPECT(kCaptureInvalidated, thread.calls.copy(thread.to_device(64), stream));
    EXPECT(kCaptureInvalidated, thread.calls.end(stream, &graph));
    expect(graph == nullptr ? 0 : 1, 0, "no graph", __LINE__);
    // It can be used again.
    OK(thread.calls.launch({1, {2, 1, 1}}, stream));
}

void by_calls(Thread &thread) {
    Calls &calls = thread.calls;
    void *memory = nullptr;
    const auto allocate = [&] { return calls.allocate_now(&memory, 64); };
    for (const int mode : {kCaptureGlobal, kCaptureThreadLocal}) {
        spoil(thread, thread.stream, mode, kCaptureUnsupported, allocate);
        spoil(thread, thread.stream, mode, kCaptureUnsupported,
              [&] { return calls.free_now(thread.device); });
    }
    spoil(thread, thread.stream, kCaptureGlobal, kCaptureUnsupported, [&] {
        int error = 0;
        std::thread([&] {
            OK(calls.begin_thread());
            error = allocate();
        }).join();
        return error;
    });
    spoil(thread, thread.stream, kCaptureRelaxed, kCaptureUnsupported,
          [&] { return calls.synchronize(thread.stream); });
    spoil(thread, thread.stream, kCaptureRelaxed, kCaptureUnsupported,
          [&] { return calls.query(thread.stream); });
    spoil(thread, thread.stream, kCaptureRelaxed, kCaptureUnsupported,
          [&] { return calls.synchronize_device(); });
    spoil(thread, thread.stream, kCaptureRelaxed, kCapturedEvent, [&] {
        OK(calls.record(thread.event, thread.stream));
        return calls.synchronize_event(thread.event);
    });
    // What is allowed.
    int mode = kCaptureRelaxed;
    Graph graph = nullptr;
    OK(calls.begin(thread.stream, kCaptureGlobal));
    OK(calls.exchange_mode(&mode));
    OK(allocate());
    OK(calls.free_now(memory));
    OK(calls.exchange_mode(&mode));
    OK(calls.copy_now(thread.to_device(32)));
    OK(calls.end(thread.stream, &graph));
    OK(calls.destroy_graph(graph));
}

void by_the_legacy_stream(Thread &thread) {
    Stream blocking = nullptr;
    OK(thread.calls.create_stream(&blocking, true));
    spoil(thread, blocking, kCaptureRelaxed, kCaptureImplicit,
          [&] { return thread.calls.copy_now(thread.to_device(32)); });
    spoil(thread, blocking, kCaptureRelaxed, kCaptureImplicit,
          [&] { return thread.calls.launch({0, {1, 1, 1}}, nullptr); });
    OK(thread.calls.destroy_stream(blocking));
    EXPECT(kCaptureUnsupported, thread.calls.begin(nullptr, kCaptureRelaxed));
}

void by_streams(Thread &thread) {
    Calls &calls = thread.calls;
    spoil(thread, thread.stream, kCaptureRelaxed, kCaptureIsolation, [&] {
        OK(calls.record(thread.event, thread.other));
        return calls.wait(thread.stream, thread.event);
    });
    Graph graph = nullptr;
    spoil(thread, thread.stream, kCaptureRelaxed, kCaptureMerge, [&] {
        OK(calls.begin(thread.other, kCaptureRelaxed));
        OK(calls.record(thread.event, thread.other));
        return calls.wait(thread.stream, thread.event);
    });
    EXPECT(kCaptureInvalidated, calls.end(thread.other, &graph));
    spoil(thread, thread.stream, kCaptureRelaxed, kCaptureUnmatched, [&] {
        OK(calls.record(thread.event, thread.stream));
        OK(calls.wait(thread.other, thread.event));
        return calls.end(thread.other, &graph);
    });
    OK(calls.begin(thread.stream, kCaptureRelaxed));
    EXPECT(kIllegalState, calls.begin(thread.stream, kCaptureRelaxed));
    OK(calls.record(thread.event, thread.stream));
    OK(calls.wait(thread.other, thread.event));
    OK(calls.launch({0, {4, 1, 1}}, thread.other));
    EXPECT(kCaptureUnjoined, calls.end(thread.stream, &graph));
    EXPECT(kIllegalState, calls.end(thread.stream, &graph));
    OK(calls.launch({0, {4, 1, 1}}, thread.other));
    // A stream that goes takes its capture along.
    Stream passing = nullptr;
    OK(calls.create_stream(&passing, false));
    OK(calls.begin(passing, kCaptureGlobal));
    OK(calls.launch({0, {4, 1, 1}}, passing));
    OK(calls.destroy_stream(passing));
    void *memory = nullptr;
    OK(calls.allocate_now(&memory, 64));
    OK(calls.free_now(memory));
}

void invalidated(Thread &thread) {
    by_calls(thread);
    by_the_legacy_stream(thread);
    by_streams(thread);
}

}  // namespace

std::vector<Scenario> invalid_scenarios() {
    return {{"invalidated", invalidated, true}};
}

}  // namespace graphs
