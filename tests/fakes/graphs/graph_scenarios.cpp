// Graphs that are made of nodes, and changed.

#include "graphs/scenario.h"

namespace graphs {
namespace {

using namespace standin;

void nothing(void * /*argument*/) {}

void replay(Thread &thread, GraphExec executable) {
    for (std::uint64_t done = 0; done < thread.replays; ++done) {
        OK(thread.calls.launch_graph(executable, thread.stream));
    }
}

struct Made {
    Graph graph = nullptr;
    GraphNode launch = nullptr;
    GraphNode copy = nullptr;
    GraphNode set = nullptr;
};

Made make(Thread &thread, const Launch &launch, std::size_t bytes) {
    Made made;
    OK(thread.calls.create_graph(&made.graph));
    OK(thread.calls.add(&made.copy, {made.graph}, thread.to_device(bytes)));
    OK(thread.calls.add(&made.launch, {made.graph, &made.copy}, launch));
    OK(thread.calls.add_set(&made.set, {made.graph, &made.launch}, thread.device, bytes));
    return made;
}

void manual(Thread &thread) {
    Calls &calls = thread.calls;
    Made made = make(thread, {0, {2, 1, 1}}, 300);
    GraphNode node = nullptr;
    GraphNode last = nullptr;
    void *memory = nullptr;
    OK(calls.add(&node, {made.graph, &made.set}, thread.to_host(40)));
    OK(calls.add(&last, {made.graph, &node}, thread.on_device(50)));
    OK(calls.add_empty(&node, {made.graph, &last}));
    OK(calls.add_host(&last, {made.graph, &node}, nothing, nullptr));
    OK(calls.add_record(&node, {made.graph, &last}, thread.event));
    OK(calls.add_wait(&last, {made.graph, &node}, thread.event));
    OK(calls.add_any(&node, {made.graph, &last}, {1, {3, 1, 1}}, false));
    OK(calls.add_any(&last, {made.graph, &node}, {2, {4, 1, 1}}, true));
    OK(calls.destroy_node(last));
    EXPECT(kInvalidValue, calls.destroy_node(last));
    OK(calls.add_allocation(&node, {made.graph}, 4096, &memory));
    OK(calls.add_set(&last, {made.graph, &node}, memory, 4096));
    OK(calls.add_free(&node, {made.graph, &last}, memory));
    std::size_t count = 0;
    OK(calls.nodes(made.graph, nullptr, &count));
    expect(static_cast<int>(count), 13, "the number of nodes", __LINE__);
    GraphExec executable = nullptr;
    OK(calls.instantiate(&executable, made.graph, 2));
    OK(calls.destroy_graph(made.graph));
    replay(thread, executable);
    OK(calls.destroy_executable(executable));
}

void child(Thread &thread) {
    Calls &calls = thread.calls;
    const Made inner = make(thread, {1, {6, 1, 1}}, 700);
    const Made outer = make(thread, {2, {1, 1, 6}}, 800);
    GraphNode node = nullptr;
    OK(calls.add_child(&node, {outer.graph, &outer.set}, inner.graph));
    // The node has a copy of its own.
    OK(calls.change(inner.launch, Launch{0, {60, 1, 1}}));
    GraphExec executable = nullptr;
    OK(calls.instantiate(&executable, outer.graph, 0));
    replay(thread, executable);
    OK(calls.change_child_in(executable, node, inner.graph));
    replay(thread, executable);
    EXPECT(kInvalidValue, calls.change_child_in(executable, node, outer.graph));
    OK(calls.destroy_graph(inner.graph));
    OK(calls.destroy_graph(outer.graph));
    OK(calls.destroy_executable(executable));
}

void clone(Thread &thread) {
    Calls &calls = thread.calls;
    const Made made = make(thread, {0, {8, 1, 1}}, 900);
    Graph copy = nullptr;
    OK(calls.clone(&copy, made.graph));
    OK(calls.change(made.launch, Launch{1, {80, 1, 1}}));
    GraphExec executable = nullptr;
    OK(calls.instantiate(&executable, copy, 0));
    OK(calls.destroy_graph(copy));
    replay(thread, executable);
    OK(calls.destroy_executable(executable));
    OK(calls.instantiate(&executable, made.graph, 1));
    replay(thread, executable);
    OK(calls.destroy_executable(executable));
    OK(calls.destroy_graph(made.graph));
    EXPECT(kInvalidResourceHandle, calls.destroy_graph(made.graph));
}

void change_in(Thread &thread, GraphExec executable, const Made &made) {
    Calls &calls = thread.calls;
    OK(calls.change_in(executable, made.launch, Launch{2, {33, 1, 1}, {128, 1, 1}}));
    OK(calls.change_in(executable, made.copy, thread.to_device(44)));
    OK(calls.change_set_in(executable, made.set, thread.device, 55));
    EXPECT(kInvalidValue, calls.change_in(executable, made.copy, thread.to_host(44)));
    EXPECT(kInvalidValue, calls.change_set_in(executable, made.copy, thread.device, 55));
    replay(thread, executable);
    OK(calls.enable(executable, made.launch, false));
    OK(calls.enable(executable, made.copy, false));
    replay(thread, executable);
    OK(calls.enable(executable, made.launch, true));
    OK(calls.enable(executable, made.copy, true));
    replay(thread, executable);
}

void update(Thread &thread) {
    Calls &calls = thread.calls;
    const Made made = make(thread, {0, {1, 1, 1}}, 100);
    OK(calls.change(made.launch, Launch{1, {2, 2, 2}, {16, 2, 1}}));
    OK(calls.change(made.copy, thread.to_host(222)));
    OK(calls.change_set(made.set, thread.device, 333));
    OK(calls.change(made.copy, thread.to_device(111)));
    GraphExec executable = nullptr;
    OK(calls.instantiate(&executable, made.graph, 0));
    replay(thread, executable);
    const Made next = make(thread, {2, {5, 5, 1}}, 1234);
    int result = kUpdateError;
    OK(calls.update(executable, next.graph, &result));
    expect(result, kUpdateSuccess, "the result", __LINE__);
    replay(thread, executable);
    // The nodes are still those of the graph that it was made from.
    change_in(thread, executable, made);
    GraphNode more = nullptr;
    OK(calls.add_empty(&more, {next.graph, &next.set}));
    EXPECT(kGraphUpdateFailure, calls.update(executable, next.graph, &result));
    expect(result, kUpdateTopologyChanged, "the result", __LINE__);
    replay(thread, executable);
    OK(calls.destroy_graph(made.graph));
    OK(calls.destroy_graph(next.graph));
    OK(calls.destroy_executable(executable));
    EXPECT(kInvalidResourceHandle, calls.launch_graph(executable, thread.stream));
}

// Of two kernels only the first one runs, also after updates.
void disabled(Thread &thread) {
    Calls &calls = thread.calls;
    Graph graph = nullptr;
    Graph copy = nullptr;
    GraphNode first = nullptr;
    GraphNode second = nullptr;
    GraphExec executable = nullptr;
    int result = kUpdateError;
    OK(calls.create_graph(&graph));
    OK(calls.add(&first, {graph}, Launch{0, {1, 1, 1}}));
    OK(calls.add(&second, {graph}, Launch{1, {1, 1, 1}}));
    OK(calls.instantiate(&executable, graph, 0));
    OK(calls.enable(executable, second, false));
    OK(calls.update(executable, graph, &result));
    replay(thread, executable);
    OK(calls.clone(&copy, graph));
    OK(calls.update(executable, copy, &result));
    replay(thread, executable);
    OK(calls.destroy_graph(copy));
    OK(calls.destroy_graph(graph));
    OK(calls.destroy_executable(executable));
}

}  // namespace

std::vector<Scenario> graph_scenarios() {
    return {{"manual", manual},
            {"child", child},
            {"clone", clone},
            {"update", update},
            {"disabled", disabled}};
}

}  // namespace graphs
