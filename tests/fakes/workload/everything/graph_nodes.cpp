// Graphs that are made node by node, and changed.

#include "workload/everything/graphs.h"

#include <type_traits>

namespace demo {
namespace {

using standin::Graph;
using standin::GraphExec;
using standin::GraphNode;
using standin::kSuccess;

struct Made {
    Everything &all;
    const GraphApi &api;
    Graph graph = nullptr;
    std::vector<GraphNode> last{};  // the next node comes after it
    std::vector<GraphNode> nodes{};
    std::vector<GraphStep> steps{};  // of `nodes`
    std::vector<GraphStep> child_steps{};
    GraphNode child = nullptr;

    template <typename... Last>
    GraphNode add(const AddNode<Last...> &function, Last... last_argument) {
        GraphNode node = nullptr;
        if (all.make(function, &node, graph, last.data(), last.size(), last_argument...) !=
            kSuccess) {
            return nullptr;
        }
        last = {node};
        return node;
    }

    template <typename Work>
    void add(const NodeWays<Work> &ways, Work &work) {
        GraphNode node = nullptr;
        if (ways.add[all.random(ways.add.size())](&node, {graph, last}, work) == kSuccess) {
            last = {node};
            nodes.push_back(node);
            steps.push_back(work.step);
        }
    }
};

std::vector<GraphStep> joined(std::vector<GraphStep> steps, const std::vector<GraphStep> &more) {
    steps.insert(steps.end(), more.begin(), more.end());
    return steps;
}

void nothing(void * /*argument*/) {}

template <typename Work>
bool exists(const Work &work) {
    if constexpr (std::is_same_v<Work, KernelWork>) {
        return work.function != nullptr;
    } else if constexpr (std::is_same_v<Work, CopyWork>) {
        return static_cast<bool>(work.of);
    } else {
        return work.to != nullptr;
    }
}

// `action` gets new work for each node that has some, and what can be done with it.
template <typename Action>
void for_each_node(Made &made, Action &&action) {
    for (std::size_t at = 0; at < made.nodes.size(); ++at) {
        const auto with = [&]<typename Work>(const NodeWays<Work> &ways) {
            Work work;
            fill(made.all, made.api, work);
            if (exists(work)) {
                action(at, ways, work);
            }
        };
        switch (made.steps[at].type) {
            case standin::kKernelNode:
                with(made.api.kernels);
                break;
            case standin::kCopyNode:
                with(made.api.copies);
                break;
            default:
                with(made.api.sets);
        }
    }
}

void add_work(Made &made) {
    for (int times = 0; times < 2; ++times) {
        KernelWork kernel;
        CopyWork copy;
        SetWork set;
        fill(made.all, made.api, kernel);
        fill(made.all, made.api, copy);
        fill(made.all, made.api, set);
        if (exists(kernel)) {
            made.add(made.api.kernels, kernel);
        }
        if (exists(copy)) {
            made.add(made.api.copies, copy);
        }
        if (exists(set)) {
            made.add(made.api.sets, set);
        }
    }
}

// One kernel in a graph of its own; also to change the first one's node by.
Graph child_graph(Made &made, std::vector<GraphStep> &steps) {
    const GraphApi &api = made.api;
    Graph graph = nullptr;
    KernelWork work;
    fill(made.all, api, work);
    GraphNode node = nullptr;
    if (!exists(work) || made.all.make(api.functions.create, &graph, 0U) != kSuccess) {
        return nullptr;
    }
    if (api.kernels.add[0](&node, {graph, {}}, work) != kSuccess) {
        made.all.make(api.functions.destroy, graph);
        return nullptr;
    }
    steps = {work.step};
    return graph;
}

void add_child(Made &made) {
    std::vector<GraphStep> steps;
    if (const Graph child = child_graph(made, steps)) {
        made.child = made.add(made.api.functions.add_child, child);
        if (made.child != nullptr) {
            made.child_steps = steps;
            Graph inside = nullptr;
            made.all.make(made.api.functions.child, made.child, &inside);
        }
        made.all.make(made.api.functions.destroy, child);
    }
}

void add_others(Made &made) {
    const GraphFunctions &functions = made.api.functions;
    const standin::HostNode host{nothing, nullptr};
    made.add(functions.add_host, &host);
    made.add(functions.add_record, made.api.event);
    made.add(functions.add_wait, made.api.event);
    GraphNode passing = nullptr;
    if (made.all.make(functions.add_empty, &passing, made.graph, nullptr, std::size_t{0}) ==
        kSuccess) {
        insist([&] { return made.all.make(functions.destroy_node, passing); });
    }
}

void ask(Made &made) {
    const GraphFunctions &functions = made.api.functions;
    std::size_t count = 0;
    made.all.make(functions.nodes, made.graph, nullptr, &count);
    if (made.nodes.empty()) {
        return;
    }
    int type = 0;
    made.all.make(functions.type, made.nodes[0], &type);
    Graph copy = nullptr;
    if (made.all.make(functions.clone, &copy, made.graph) == kSuccess) {
        GraphNode same = nullptr;
        made.all.make(functions.find_in_clone, &same, made.nodes[0], copy);
        if (const GraphExec executable = instantiate(made.all, made.api, copy)) {
            launch(made.all, made.api, executable, joined(made.steps, made.child_steps));
            destroy(made.all, made.api, executable);
        }
        made.all.make(functions.destroy, copy);
    }
}

void change(Made &made) {
    for_each_node(made, [&](std::size_t at, const auto &ways, auto &work) {
        if (ways.change[made.all.random(ways.change.size())](made.nodes[at], work) == kSuccess) {
            made.steps[at] = work.step;
        }
    });
}

// A copy keeps its direction in an executable graph.
void change_in(Made &made, GraphExec executable, std::vector<GraphStep> &child_steps,
               std::vector<GraphStep> &steps) {
    for_each_node(made, [&]<typename Work>(std::size_t at, const auto &ways, Work &work) {
        if constexpr (std::is_same_v<Work, CopyWork>) {
            const auto direction = static_cast<unsigned>(steps[at].direction);
            work.of = ends(made.all, (direction & 1U) != 0, (direction & 2U) != 0);
            work.step.direction = work.of.kind();
        }
        work.step.enabled = steps[at].enabled;
        if (ways.change_in[made.all.random(ways.change_in.size())](executable, made.nodes[at],
                                                                   work) == kSuccess) {
            steps[at] = work.step;
        }
    });
    if (made.child == nullptr) {
        return;
    }
    std::vector<GraphStep> other_steps;
    if (const Graph other = child_graph(made, other_steps)) {
        if (made.all.make(made.api.functions.change_child_in, executable, made.child, other) ==
            kSuccess) {
            child_steps = other_steps;
        }
        made.all.make(made.api.functions.destroy, other);
    }
}

void enable_some(Made &made, GraphExec executable, std::vector<GraphStep> &steps) {
    for (std::size_t at = 0; at < made.nodes.size(); ++at) {
        const bool enabled = made.all.coin();
        if (made.all.make(made.api.functions.enable, executable, made.nodes[at],
                          enabled ? 1U : 0U) == kSuccess) {
            steps[at].enabled = enabled;
        }
        unsigned is_enabled = 0;
        made.all.make(made.api.functions.is_enabled, executable, made.nodes[at], &is_enabled);
    }
}

// What the graph does is taken over; which nodes are enabled stays.
void update(Made &made, GraphExec executable, std::vector<GraphStep> steps) {
    const auto &ways = made.api.update;
    if (ways[made.all.random(ways.size())](executable, made.graph) != kSuccess) {
        return;
    }
    for (std::size_t at = 0; at < steps.size(); ++at) {
        const bool enabled = steps[at].enabled;
        steps[at] = made.steps[at];
        steps[at].enabled = enabled;
    }
    launch(made.all, made.api, executable, joined(std::move(steps), made.child_steps));
}

// An executable graph with memory of its own; what it allocates is in no account.
void make_graph_with_memory(Everything &all, const GraphApi &api) {
    Made made{all, api};
    if (all.make(api.functions.create, &made.graph, 0U) != kSuccess) {
        return;
    }
    standin::AllocateNode allocation;
    allocation.bytes = all.random_bytes();
    GraphNode free_node = nullptr;
    if (made.add(api.functions.add_allocation, &allocation) != nullptr &&
        api.add_free(&free_node, {made.graph, made.last}, allocation.address) == kSuccess) {
        if (const GraphExec executable = instantiate(all, api, made.graph)) {
            launch(all, api, executable, {});
            destroy(all, api, executable);
        }
    }
    all.make(api.functions.destroy, made.graph);
}

}  // namespace

void make_graph(Everything &all, const GraphApi &api) {
    make_graph_with_memory(all, api);
    Made made{all, api};
    if (all.make(api.functions.create, &made.graph, 0U) != kSuccess) {
        return;
    }
    add_work(made);
    add_child(made);
    add_others(made);
    ask(made);
    change(made);
    if (const GraphExec executable = instantiate(all, api, made.graph)) {
        std::vector<GraphStep> steps = made.steps;
        std::vector<GraphStep> child_steps = made.child_steps;
        launch(all, api, executable, joined(steps, child_steps));
        change_in(made, executable, child_steps, steps);
        enable_some(made, executable, steps);
        launch(all, api, executable, joined(steps, child_steps));
        update(made, executable, steps);
        destroy(all, api, executable);
    }
    all.make(api.functions.destroy, made.graph);
}

}  // namespace demo
