// Captures, replays and other launches at the same time.

#include "graphs/scenario.h"
#include "workload/pacer.h"

namespace graphs {
namespace {

using namespace standin;

Launch random_launch(Thread &thread) {
    return {static_cast<unsigned>(thread.random(kKernels)),
            {static_cast<std::uint32_t>(1 + thread.random(4)), 1, 1},
            {32, 1, 1}};
}

Copy random_copy(Thread &thread) {
    const std::size_t bytes = 1 + thread.random(4096);
    switch (thread.random(3)) {
        case 0:
            return thread.to_device(bytes);
        case 1:
            return thread.to_host(bytes);
        default:
            return thread.on_device(bytes);
    }
}

void random_work(Thread &thread, Stream stream, demo::Pacer &pacer) {
    for (std::uint64_t left = 1 + thread.random(6); left != 0; --left) {
        pacer.wait();
        switch (thread.random(4)) {
            case 0:
                OK(thread.calls.copy(random_copy(thread), stream));
                break;
            case 1:
                OK(thread.calls.set(thread.device, 1 + thread.random(4096), stream));
                break;
            default:
                OK(thread.calls.launch(random_launch(thread), stream));
        }
    }
}

// On streams that live no longer than the capture, so that handles come back at once.
void capture_and_replay(Thread &thread, demo::Pacer &pacer, GraphExec inner) {
    Stream stream = nullptr;
    Graph graph = nullptr;
    GraphExec executable = nullptr;
    OK(thread.calls.create_stream(&stream, false));
    OK(thread.calls.begin(stream, thread.random(2) == 0 ? kCaptureThreadLocal : kCaptureRelaxed));
    random_work(thread, stream, pacer);
    if (inner != nullptr) {
        OK(thread.calls.launch_graph(inner, stream));
    }
    if (thread.random(2) == 0) {
        OK(thread.calls.record(thread.event, stream));
        OK(thread.calls.wait(thread.other, thread.event));
        random_work(thread, thread.other, pacer);
        OK(thread.calls.record(thread.other_event, thread.other));
        OK(thread.calls.wait(stream, thread.other_event));
    }
    OK(thread.calls.end(stream, &graph));
    OK(thread.calls.destroy_stream(stream));
    OK(thread.calls.instantiate(&executable, graph, static_cast<unsigned>(thread.random(3))));
    OK(thread.calls.destroy_graph(graph));
    for (std::uint64_t left = thread.random(8); left != 0; --left) {
        pacer.wait();
        OK(thread.calls.launch_graph(executable, thread.stream));
    }
    if (inner == nullptr && thread.random(3) == 0) {
        capture_and_replay(thread, pacer, executable);
    }
    OK(thread.calls.destroy_executable(executable));
}

// Made by hand, launched, changed and launched again.
void make_and_change(Thread &thread, demo::Pacer &pacer) {
    Graph graph = nullptr;
    GraphExec executable = nullptr;
    GraphNode launch = nullptr;
    GraphNode copy = nullptr;
    GraphNode set = nullptr;
    OK(thread.calls.create_graph(&graph));
    OK(thread.calls.add(&launch, {graph}, random_launch(thread)));
    OK(thread.calls.add(&copy, {graph, &launch}, thread.to_host(1 + thread.random(999))));
    OK(thread.calls.add_set(&set, {graph, &copy}, thread.device, 1 + thread.random(999)));
    OK(thread.calls.instantiate(&executable, graph, 0));
    for (std::uint64_t left = 1 + thread.random(5); left != 0; --left) {
        pacer.wait();
        OK(thread.calls.launch_graph(executable, thread.stream));
        int result = 0;
        switch (thread.random(5)) {
            case 0:
                OK(thread.calls.change_in(executable, launch, random_launch(thread)));
                break;
            case 1:
                OK(thread.calls.change_in(executable, copy,
                                          thread.to_host(1 + thread.random(999))));
                break;
            case 2:
                OK(thread.calls.enable(executable, launch, thread.random(2) == 0));
                break;
            case 3:
                OK(thread.calls.change(launch, random_launch(thread)));
                OK(thread.calls.update(executable, graph, &result));
                break;
            default:
                OK(thread.calls.change_set_in(executable, set, thread.device,
                                              1 + thread.random(999)));
        }
    }
    OK(thread.calls.destroy_graph(graph));
    OK(thread.calls.destroy_executable(executable));
}

// Only this thread's own capture is invalid then.
void spoil(Thread &thread, demo::Pacer &pacer) {
    Graph graph = nullptr;
    OK(thread.calls.begin(thread.other, kCaptureThreadLocal));
    random_work(thread, thread.other, pacer);
    EXPECT(kCaptureUnsupported, thread.calls.query(thread.other));
    EXPECT(kCaptureInvalidated, thread.calls.launch(random_launch(thread), thread.other));
    EXPECT(kCaptureInvalidated, thread.calls.end(thread.other, &graph));
}

void mixed(Thread &thread) {
    demo::Pacer pacer(thread.options);
    const demo::Deadline deadline(thread.options);
    for (std::uint64_t done = 0; done < demo::iterations(thread.options) && !deadline.passed();
         ++done) {
        switch (thread.random(5)) {
            case 0:
                make_and_change(thread, pacer);
                break;
            case 1:
                random_work(thread, thread.stream, pacer);
                OK(thread.calls.synchronize(thread.stream));
                break;
            case 2:
                spoil(thread, pacer);
                break;
            default:
                capture_and_replay(thread, pacer, nullptr);
        }
    }
}

// Every second thread captures; the others launch.
void concurrent(Thread &thread) {
    demo::Pacer pacer(thread.options);
    for (std::uint64_t done = 0; done < 20 * thread.replays; ++done) {
        if (thread.index % 2 == 0) {
            capture_and_replay(thread, pacer, nullptr);
        } else {
            random_work(thread, thread.stream, pacer);
        }
    }
}

}  // namespace

std::vector<Scenario> mixed_scenarios() {
    return {{"concurrent", concurrent}, {"mixed", mixed}};
}

}  // namespace graphs
