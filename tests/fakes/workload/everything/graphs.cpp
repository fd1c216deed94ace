// Captures, and what else either API does in the same way.

#include "workload/everything/graphs.h"

#include "workload/kernels.h"

#include <memory>

namespace demo {
namespace {

using standin::Graph;
using standin::GraphExec;
using standin::GraphNode;
using standin::kSuccess;
using standin::Stream;
using truth::Captured;

void count_up(void *argument) {
    ++*static_cast<std::uint64_t *>(argument);
}

// While one capture goes on.
struct Capturing {
    Everything &all;
    const GraphApi &api;
    const StreamFunctions &functions;
    std::vector<GraphStep> steps{};

    template <typename Work>
    void put(const NodeWays<Work> &ways, Work &work, Captured what, Stream stream) {
        if (ways.put(work, stream) == kSuccess) {
            all.note_captured(what);
            steps.push_back(work.step);
        }
    }
};

struct SomeWork {
    KernelWork kernel;
    CopyWork copy;
    SetWork set;

    SomeWork(Everything &all, const GraphApi &api) {
        fill(all, api, kernel);
        fill(all, api, copy);
        fill(all, api, set);
    }
    void put(Capturing &to, Stream stream) {
        if (kernel.function != nullptr) {
            to.put(to.api.kernels, kernel, Captured::launch, stream);
        }
        if (copy.of) {
            to.put(to.api.copies, copy, Captured::copy, stream);
        }
        if (set.to != nullptr) {
            to.put(to.api.sets, set, Captured::memset, stream);
        }
    }
};

bool begin(Everything &all, const GraphApi &api, const StreamFunctions &functions) {
    const int mode = all.coin() ? standin::kCaptureThreadLocal : standin::kCaptureRelaxed;
    if (all.coin()) {
        return all.make(functions.begin, api.stream, mode) == kSuccess;
    }
    Graph graph = nullptr;
    return all.make(api.functions.create, &graph, 0U) == kSuccess &&
           all.make(functions.begin_into, api.stream, graph, nullptr, nullptr, std::size_t{0},
                    mode) == kSuccess;
}

void ask(Everything &all, const GraphApi &api, const StreamFunctions &functions) {
    int status = 0;
    std::uint64_t id = 0;
    Graph graph = nullptr;
    const GraphNode *nodes = nullptr;
    const standin::EdgeData *edges = nullptr;
    std::size_t count = 0;
    all.make(functions.is_capturing, api.stream, &status);
    all.make(functions.info_v2, api.stream, &status, &id, &graph, &nodes, &count);
    all.make(functions.info_v3, api.stream, &status, &id, &graph, &nodes, &edges, &count);
    if (api.own_info) {
        api.own_info(api.stream);
    }
}

// Memory that the graph has for itself.
void use_memory(Capturing &to) {
    const GraphApi &api = to.api;
    void *memory = nullptr;
    if (api.allocate(&memory, to.all.random_bytes(), api.stream) == kSuccess) {
        to.all.note_captured(Captured::allocate);
        if (api.free(memory, api.stream) == kSuccess) {
            to.all.note_captured(Captured::free);
        }
    }
}

// The other stream joins, and comes back.
void join(Capturing &to, SomeWork &work) {
    Everything &all = to.all;
    const GraphApi &api = to.api;
    const StreamFunctions &functions = to.functions;
    if (all.make(functions.record, api.event, api.stream) != kSuccess ||
        all.make(functions.wait, api.other, api.event, 0U) != kSuccess) {
        return;
    }
    work.put(to, api.other);
    if (all.make(functions.record_with_flags, api.other_event, api.other, 0U) == kSuccess) {
        all.make(functions.wait, api.stream, api.other_event, 0U);
    }
}

// Without a capture.
void use_stream(Everything &all, const GraphApi &api) {
    const StreamFunctions &functions = api.functions.of_stream[all.random(2)];
    std::uint64_t calls = 0;
    all.make(functions.record, api.event, api.stream);
    all.make(functions.wait, api.other, api.event, 0U);
    all.make(functions.query, api.stream);
    all.make(api.functions.query, api.event);
    all.make(api.functions.synchronize, api.event);
    all.make(functions.host, api.stream, count_up, static_cast<void *>(&calls));
    int mode = standin::kCaptureThreadLocal;
    if (all.make(api.functions.exchange_mode, &mode) == kSuccess) {
        insist([&] { return all.make(api.functions.exchange_mode, &mode); });
    }
}

}  // namespace

void fill(Everything &all, const GraphApi &api, KernelWork &work) {
    api.find_kernel(work);
    work.step.type = standin::kKernelNode;
    work.step.grid = all.random_grid();
    work.step.block = all.random_block();
}

void fill(Everything &all, const GraphApi & /*api*/, CopyWork &work) {
    work.of = random_ends(all);
    work.step.type = standin::kCopyNode;
    work.step.direction = work.of.kind();
    work.step.bytes = 1 + all.random(kVariableBytes);
}

void fill(Everything &all, const GraphApi & /*api*/, SetWork &work) {
    work.to = all.device_room();
    work.step.type = standin::kSetNode;
    work.step.bytes = 1 + all.random(Everything::kRoom);
}

GraphExec instantiate(Everything &all, const GraphApi &api, Graph graph) {
    GraphExec executable = nullptr;
    const std::size_t way = all.random(2 + api.instantiate.size());
    standin::InstantiateParameters parameters;
    const int error = way < 2 ? all.make(api.functions.of_stream[way].instantiate, &executable,
                                         graph, &parameters)
                              : api.instantiate[way - 2](&executable, graph);
    return error == kSuccess ? executable : nullptr;
}

void launch(Everything &all, const GraphApi &api, GraphExec executable,
            const std::vector<GraphStep> &steps) {
    const StreamFunctions &functions = api.functions.of_stream[all.random(2)];
    all.make(functions.upload, executable, api.stream);
    for (std::uint64_t times = 1 + all.random(3); times != 0; --times) {
        if (all.make(functions.launch, executable, api.stream) == kSuccess) {
            all.note_graph(steps);
        }
    }
}

void destroy(Everything &all, const GraphApi &api, GraphExec executable) {
    insist([&] { return all.make(api.functions.destroy_executable, executable); });
}

// A captured call that fails is in no account; nor is a capture that another thread made invalid.
void capture(Everything &all, const GraphApi &api) {
    SomeWork work(all, api);
    SomeWork other_work(all, api);
    Capturing to{all, api, api.functions.of_stream[all.random(2)]};
    if (!begin(all, api, to.functions)) {
        return;
    }
    static thread_local std::uint64_t calls = 0;
    work.put(to, api.stream);
    ask(all, api, to.functions);
    all.make(to.functions.host, api.stream, count_up, static_cast<void *>(&calls));
    if (all.coin()) {
        join(to, other_work);
    }
    if (all.random(4) == 0) {
        use_memory(to);
    }
    Graph graph = nullptr;
    if (insist([&] { return all.make(to.functions.end, api.stream, &graph); }) != kSuccess) {
        return;
    }
    if (const GraphExec executable = instantiate(all, api, graph)) {
        launch(all, api, executable, to.steps);
        destroy(all, api, executable);
    }
    all.make(api.functions.destroy, graph);
}

namespace {

// A graph inside another's capture.
void capture_launch(Everything &all, const GraphApi &api) {
    KernelWork kernel;
    fill(all, api, kernel);
    Graph inner = nullptr;
    GraphNode node = nullptr;
    if (kernel.function == nullptr || all.make(api.functions.create, &inner, 0U) != kSuccess ||
        api.kernels.add[0](&node, {inner, {}}, kernel) != kSuccess) {
        return;
    }
    const GraphExec executable = instantiate(all, api, inner);
    const StreamFunctions &functions = api.functions.of_stream[all.random(2)];
    if (executable == nullptr ||
        all.make(functions.begin, api.stream, int{standin::kCaptureThreadLocal}) != kSuccess) {
        return;
    }
    std::vector<GraphStep> steps;
    if (all.make(functions.launch, executable, api.stream) == kSuccess) {
        all.note_captured(Captured::graph);
        steps.push_back(kernel.step);
    }
    Graph graph = nullptr;
    if (insist([&] { return all.make(functions.end, api.stream, &graph); }) == kSuccess) {
        if (const GraphExec outer = instantiate(all, api, graph)) {
            launch(all, api, outer, steps);
            destroy(all, api, outer);
        }
        all.make(api.functions.destroy, graph);
    }
    destroy(all, api, executable);
    all.make(api.functions.destroy, inner);
}

}  // namespace

void add_graph_actions(Everything &all, GraphApi made) {
    auto api = std::make_shared<GraphApi>(std::move(made));
    all.beginnings.emplace_back([api] { api->open(*api); });
    const auto ready = [api] {
        return api->stream != nullptr && api->other != nullptr && api->event != nullptr &&
               api->other_event != nullptr;
    };
    auto add = [&all, api, ready](auto action) {
        all.actions.emplace_back([&all, api, ready, action] {
            if (ready()) {
                action(all, *api);
            }
        });
    };
    add(use_stream);
    add(capture);
    add(capture);
    add(capture_launch);
    add(make_graph);
}

}  // namespace demo
