// Captures that go well.

#include "graphs/scenario.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace graphs {
namespace {

using namespace standin;

constexpr int kModes[] = {kCaptureGlobal, kCaptureThreadLocal, kCaptureRelaxed};

void count_up(void *argument) {
    ++*static_cast<std::uint64_t *>(argument);
}

// As PyTorch does it: on a stream of its own, kernels between copies.
void work(Thread &thread, Stream stream, unsigned launches = 3) {
    OK(thread.calls.copy(thread.to_device(4096), stream));
    for (unsigned at = 0; at < launches; ++at) {
        OK(thread.calls.launch({at % kKernels, {at + 1, 2, 1}, {64, 1, 1}}, stream));
    }
    OK(thread.calls.set(thread.device, 1000, stream));
    OK(thread.calls.copy(thread.on_device(512), stream));
    OK(thread.calls.copy(thread.to_host(100), stream));
}

GraphExec captured(Thread &thread, Stream stream, int mode, unsigned way = 0) {
    Graph graph = nullptr;
    GraphExec executable = nullptr;
    OK(thread.calls.begin(stream, mode));
    work(thread, stream);
    OK(thread.calls.end(stream, &graph));
    OK(thread.calls.instantiate(&executable, graph, way));
    OK(thread.calls.destroy_graph(graph));
    return executable;
}

void replay(Thread &thread, GraphExec executable, Stream stream) {
    OK(thread.calls.upload(executable, stream));
    for (std::uint64_t done = 0; done < thread.replays; ++done) {
        OK(thread.calls.launch_graph(executable, stream));
    }
    OK(thread.calls.synchronize(stream));
    OK(thread.calls.destroy_executable(executable));
}

// Global captures of one thread forbid the calls of no other here.
void capture_replay(Thread &thread) {
    for (unsigned way = 0; way < 3; ++way) {
        replay(thread, captured(thread, thread.stream, kModes[way], way), thread.stream);
    }
    // With memory, and what is done by the host.
    static thread_local std::uint64_t calls = 0;
    Graph graph = nullptr;
    GraphExec executable = nullptr;
    void *memory = nullptr;
    OK(thread.calls.begin(thread.stream, kCaptureThreadLocal));
    OK(thread.calls.allocate(&memory, 2048, thread.stream));
    OK(thread.calls.set(memory, 2048, thread.stream));
    OK(thread.calls.host(count_up, &calls, thread.stream));
    OK(thread.calls.free(memory, thread.stream));
    OK(thread.calls.end(thread.stream, &graph));
    OK(thread.calls.instantiate(&executable, graph, 0));
    OK(thread.calls.destroy_graph(graph));
    replay(thread, executable, thread.stream);
    expect(calls == thread.replays ? 0 : 1, 0, "the host's function is called", __LINE__);
}

void joined_streams(Thread &thread) {
    Graph graph = nullptr;
    GraphExec executable = nullptr;
    OK(thread.calls.begin(thread.stream, kCaptureThreadLocal));
    OK(thread.calls.launch({0, {1, 1, 1}}, thread.stream));
    OK(thread.calls.record(thread.event, thread.stream));
    OK(thread.calls.wait(thread.other, thread.event));
    work(thread, thread.other);
    OK(thread.calls.launch({1, {5, 1, 1}}, thread.stream));
    OK(thread.calls.record(thread.other_event, thread.other));
    OK(thread.calls.wait(thread.stream, thread.other_event));
    OK(thread.calls.launch({2, {9, 1, 1}}, thread.stream));
    OK(thread.calls.end(thread.stream, &graph));
    // It captures no more.
    OK(thread.calls.launch({2, {9, 9, 1}}, thread.other));
    OK(thread.calls.instantiate(&executable, graph, 0));
    OK(thread.calls.destroy_graph(graph));
    replay(thread, executable, thread.other);
}

void nested(Thread &thread) {
    GraphExec inner = captured(thread, thread.other, kCaptureThreadLocal);
    Graph graph = nullptr;
    GraphExec outer = nullptr;
    OK(thread.calls.begin(thread.stream, kCaptureThreadLocal));
    OK(thread.calls.launch_graph(inner, thread.stream));
    OK(thread.calls.launch({0, {7, 1, 1}}, thread.stream));
    OK(thread.calls.launch_graph(inner, thread.stream));
    OK(thread.calls.end(thread.stream, &graph));
    OK(thread.calls.instantiate(&outer, graph, 0));
    OK(thread.calls.destroy_executable(inner));
    OK(thread.calls.destroy_graph(graph));
    replay(thread, outer, thread.stream);
}

void per_thread_stream(Thread &thread) {
    auto *stream = reinterpret_cast<Stream>(kPerThreadStream);
    replay(thread, captured(thread, stream, kCaptureThreadLocal), stream);
}

void to_graph(Thread &thread) {
    Graph graph = nullptr;
    GraphExec executable = nullptr;
    GraphNode node = nullptr;
    OK(thread.calls.create_graph(&graph));
    OK(thread.calls.add(&node, {graph}, Launch{1, {3, 1, 1}}));
    for (int times = 0; times < 2; ++times) {
        Graph same = nullptr;
        OK(thread.calls.begin_into(thread.stream, graph, kCaptureThreadLocal));
        work(thread, thread.stream);
        OK(thread.calls.end(thread.stream, &same));
        expect(same == graph ? 0 : 1, 0, "the same graph", __LINE__);
    }
    OK(thread.calls.instantiate(&executable, graph, 0));
    OK(thread.calls.destroy_graph(graph));
    replay(thread, executable, thread.stream);
}

// What is captured before a test attaches, and replayed after.
void before(Thread &thread) {
    GraphExec executable = captured(thread, thread.stream, kCaptureThreadLocal);
    std::puts("waiting 1");
    std::fflush(stdout);
    sigset_t wake;
    sigemptyset(&wake);
    sigaddset(&wake, SIGUSR1);
    int signal = 0;
    sigwait(&wake, &signal);
    replay(thread, executable, thread.stream);
}

// A thread ends in its capture, and another captures after it; then the process ends in one.
void abandoned(Thread &thread) {
    std::thread([&thread] {
        OK(thread.calls.begin_thread());
        OK(thread.calls.begin(thread.stream, kCaptureThreadLocal));
        work(thread, thread.stream);
    }).join();
    Graph graph = nullptr;
    EXPECT(kCaptureWrongThread, thread.calls.end(thread.stream, &graph));
    replay(thread, captured(thread, thread.other, kCaptureThreadLocal), thread.other);
    OK(thread.calls.begin(thread.other, kCaptureRelaxed));
    work(thread, thread.other);
    std::printf("abandoned %s\n", all_as_expected() ? "ok" : "failed");
    std::fflush(stdout);
    std::_Exit(all_as_expected() ? 0 : 1);
}

}  // namespace

std::vector<Scenario> capture_scenarios() {
    return {{"capture_replay", capture_replay},
            {"joined_streams", joined_streams},
            {"nested", nested},
            {"per_thread_stream", per_thread_stream},
            {"to_graph", to_graph},
            {"before", before, true},
            {"abandoned", abandoned, true}};
}

}  // namespace graphs
