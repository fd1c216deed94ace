// What graphs hold, and what their launches count, by records as the kernel sends them.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <memory>

#include "exporter/probes/cuda/graphs/graphs.h"
#include "tests/unit/probes/cuda/fixture.h"

using namespace gpusnoop;
using namespace gpusnoop::probes;

namespace {

struct GraphsFixture : Fixture {
    GraphsFixture() {
        allocations(process());
        allocations(named(0x10, "gemm"));
        allocations(named(0x20, "reduce"));
    }
    // A capture of one launch and one copy, into the graph, and an executable graph of it.
    void capture(std::uint64_t number, std::uint64_t graph, std::uint64_t executable,
                 std::uint64_t at) const {
        allocations(change("cudaStreamBeginCapture", number, 0, at));
        allocations(launching(captured("cudaLaunchKernel", number, at + 1), 0x10, 7));
        allocations(copying(captured("cudaMemcpyAsync", number, at + 2), 1, 2, 100, COPY_H2D));
        allocations(change("cudaStreamEndCapture", number, graph, at + 3));
        allocations(change("cudaGraphInstantiate", executable, graph, at + 4));
    }
    void launch_graph(std::uint64_t executable, std::uint64_t at) const {
        calls(graph_launch(executable, at));
        apply_all();
    }
    [[nodiscard]] std::uint64_t launches(const std::vector<std::string> &labels) const {
        return sum("cuda_kernel_launches_total", labels);
    }
    [[nodiscard]] std::uint64_t unknown() const {
        return sum("cuda_graph_launches_total", {"unknown"});
    }
};

}  // namespace

TEST_CASE("captured calls are no launches and no copies until their graph is launched") {
    GraphsFixture fixture;
    fixture.capture(1, 0x100, 0x200, 3'000);
    fixture.apply_all();
    CHECK(fixture.page("cuda_graph_captured_total") ==
          Page{{{"python", "", "", "", "launch"}, 1}, {{"python", "", "", "", "copy"}, 1}});
    CHECK(fixture.page("cuda_kernel_launches_total").empty());
    CHECK(fixture.page("cuda_memcpy_total").empty());
    fixture.launch_graph(0x200, 4'000);
    fixture.launch_graph(0x200, 4'001);
    CHECK(fixture.page("cuda_kernel_launches_total") ==
          Page{{{"python", "", "", "", "gemm", "7x1x1", "32x2x1", "graph", "4"}, 2}});
    CHECK(fixture.page("cuda_memcpy_bytes_total") ==
          Page{{{"python", "", "", "", "h2d", "graph", "4"}, 200}});
    CHECK(fixture.page("cuda_graph_launches_total") ==
          Page{{{"python", "", "", "", "known", "4"}, 2}});
    CHECK(fixture.page("cuda_memcpy_size_bytes").empty());
    CHECK(fixture.page("cuda_memcpy_seconds_total").empty());
    CHECK(fixture.page("cuda_kernel_launch_duration_seconds").empty());
}

TEST_CASE("records of graphs count in the order of their calls, whichever ring is read first") {
    GraphsFixture fixture;
    fixture.calls(graph_launch(0x200, 4'000));
    fixture.capture(1, 0x100, 0x200, 3'000);
    fixture.apply_all();
    CHECK(fixture.launches({"gemm", "graph"}) == 1);
    CHECK(fixture.unknown() == 0);
}

TEST_CASE("what a graph runs that was not seen being made is unknown") {
    GraphsFixture fixture;
    fixture.launch_graph(0x200, 3'000);
    fixture.allocations(change("cudaGraphInstantiate", 0x300, 0x100, 3'001));
    fixture.launch_graph(0x300, 3'002);
    fixture.allocations(change("cudaStreamEndCapture", 0, 0x100, 3'003));  // began unseen
    fixture.allocations(change("cudaGraphInstantiate", 0x300, 0x100, 3'004));
    fixture.launch_graph(0x300, 3'005);
    CHECK(fixture.unknown() == 3);
    CHECK(fixture.page("cuda_kernel_launches_total").empty());
}

TEST_CASE("a lost record makes all graphs of its process unknown") {
    GraphsFixture fixture;
    fixture.capture(1, 0x100, 0x200, 3'000);
    auto launch = graph_launch(0x200, 4'000);
    launch.losses = 1;
    fixture.calls(launch);
    fixture.apply_all();
    CHECK(fixture.unknown() == 1);
    SECTION("and not those that are made after it") {
        fixture.capture(2, 0x101, 0x201, 5'000);
        launch.executable = 0x201;
        launch.head.ended_ns = 6'000;
        fixture.calls(launch);
        fixture.apply_all();
        CHECK(fixture.unknown() == 1);
        CHECK(fixture.launches({"gemm"}) == 1);
    }
}

TEST_CASE("a capture that ended with an error leaves no graph, and is an error") {
    GraphsFixture fixture;
    fixture.allocations(change("cudaStreamBeginCapture", 1, 0, 3'000));
    fixture.allocations(launching(captured("cudaLaunchKernel", 1, 3'001), 0x10, 7));
    auto end = change("cudaStreamEndCapture", 1, 0, 3'002);
    end.head.result = 901;
    fixture.allocations(end);
    fixture.apply_all();
    CHECK(fixture.sum("cuda_api_errors_total",
                      {"cudaStreamEndCapture", "cudaErrorStreamCaptureInvalidated"}) == 1);
    CHECK(fixture.sum("cuda_graph_captured_total", {"launch"}) == 1);
}

TEST_CASE("nodes that are added, changed and removed by hand change what a graph runs") {
    GraphsFixture fixture;
    fixture.allocations(change("cudaGraphCreate", 0x100, 0, 3'000));
    fixture.allocations(launching(change("cudaGraphAddKernelNode", 0x100, 0xa, 3'001), 0x10, 1));
    fixture.allocations(launching(change("cudaGraphAddKernelNode", 0x100, 0xb, 3'002), 0x20, 2));
    fixture.allocations(change("cudaGraphInstantiate", 0x200, 0x100, 3'003));
    SECTION("an executable graph keeps what it was made of") {
        fixture.allocations(change("cudaGraphDestroyNode", 0, 0xb, 3'004));
        fixture.allocations(change("cudaGraphInstantiate", 0x201, 0x100, 3'005));
        fixture.launch_graph(0x200, 3'006);
        CHECK(fixture.launches({"reduce"}) == 1);
        fixture.launch_graph(0x201, 3'007);
        CHECK(fixture.launches({"reduce"}) == 1);
        CHECK(fixture.launches({"gemm"}) == 2);
    }
    SECTION("a node of an executable graph has other parameters, or is not enabled") {
        fixture.allocations(
            launching(change("cudaGraphExecKernelNodeSetParams", 0x200, 0xa, 3'004), 0x20, 9));
        fixture.launch_graph(0x200, 3'005);
        CHECK(fixture.launches({"gemm"}) == 0);
        CHECK(fixture.launches({"reduce", "9x1x1"}) == 1);
        auto enable = change("cudaGraphNodeSetEnabled", 0x200, 0xa, 3'006);
        fixture.allocations(enable);
        fixture.launch_graph(0x200, 3'007);
        CHECK(fixture.launches({"reduce", "9x1x1"}) == 1);
        CHECK(fixture.launches({"reduce", "2x1x1"}) == 2);
        enable.address = 1;
        enable.head.ended_ns = 3'008;
        fixture.allocations(enable);
        fixture.launch_graph(0x200, 3'009);
        CHECK(fixture.launches({"reduce", "9x1x1"}) == 2);
    }
    SECTION("an update changes the works, and which node does which is not known") {
        fixture.allocations(change("cudaGraphCreate", 0x101, 0, 3'004));
        fixture.allocations(
            launching(change("cudaGraphAddKernelNode", 0x101, 0xc, 3'005), 0x10, 5));
        fixture.allocations(
            launching(change("cudaGraphAddKernelNode", 0x101, 0xd, 3'006), 0x10, 6));
        fixture.allocations(change("cudaGraphExecUpdate", 0x200, 0x101, 3'007));
        CHECK(fixture.unknown() == 0);
        fixture.launch_graph(0x200, 3'008);
        CHECK(fixture.launches({"gemm", "5x1x1"}) == 1);
        CHECK(fixture.launches({"gemm", "6x1x1"}) == 1);
        CHECK(fixture.launches({"graph"}) == 2);
        // CUDA pairs nodes by their edges, too: 0xb may do what 0xc or 0xd did.
        fixture.allocations(
            launching(change("cudaGraphExecKernelNodeSetParams", 0x200, 0xb, 3'009), 0x20, 8));
        fixture.launch_graph(0x200, 3'010);
        CHECK(fixture.unknown() == 1);
        CHECK(fixture.launches({"reduce"}) == 0);
    }
    SECTION("a child is what it was when it was added") {
        fixture.allocations(change("cudaGraphCreate", 0x101, 0, 3'004));
        auto child = change("cudaGraphAddChildGraphNode", 0x101, 0xc, 3'005);
        child.holds = CUDA_NODE_GRAPH;
        child.address = 0x100;
        fixture.allocations(child);
        fixture.allocations(
            launching(change("cudaGraphKernelNodeSetParams", 0, 0xa, 3'006), 0x20, 99));
        fixture.allocations(change("cudaGraphInstantiate", 0x201, 0x101, 3'007));
        fixture.launch_graph(0x201, 3'008);
        CHECK(fixture.launches({"gemm", "1x1x1"}) == 1);
        CHECK(fixture.launches({"99x1x1"}) == 0);
    }
    SECTION("a node that decides by itself what runs makes it unknown") {
        auto condition = change("cudaGraphAddNode", 0x100, 0xc, 3'004);
        condition.holds = CUDA_NODE_UNKNOWN;
        fixture.allocations(condition);
        fixture.allocations(change("cudaGraphInstantiate", 0x201, 0x100, 3'005));
        fixture.launch_graph(0x201, 3'006);
        CHECK(fixture.unknown() == 1);
    }
    CHECK(fixture.aggregator->undecodable() == 0);
}

TEST_CASE("a change of a node that was captured makes the graph unknown") {
    GraphsFixture fixture;
    fixture.capture(1, 0x100, 0x200, 3'000);
    SECTION("in the executable graph") {
        fixture.allocations(
            launching(change("cudaGraphExecKernelNodeSetParams", 0x200, 0xa, 4'000), 0x20, 9));
        fixture.launch_graph(0x200, 4'001);
        CHECK(fixture.unknown() == 1);
    }
    SECTION("in the graph, which may be any that was captured") {
        fixture.allocations(
            launching(change("cudaGraphKernelNodeSetParams", 0, 0xa, 4'000), 0x20, 9));
        fixture.launch_graph(0x200, 4'001);
        CHECK(fixture.unknown() == 0);
        fixture.allocations(change("cudaGraphInstantiate", 0x201, 0x100, 4'002));
        fixture.launch_graph(0x201, 4'003);
        CHECK(fixture.unknown() == 1);
    }
}

TEST_CASE("a node that was disabled stays so when its executable graph is updated") {
    GraphsFixture fixture;
    const auto make = [&](std::uint64_t graph, std::uint64_t first, std::uint64_t at) {
        fixture.allocations(change("cudaGraphCreate", graph, 0, at));
        fixture.allocations(
            launching(change("cudaGraphAddKernelNode", graph, first, at + 1), 0x10, 1));
        fixture.allocations(
            launching(change("cudaGraphAddKernelNode", graph, first + 1, at + 2), 0x20, 2));
    };
    const auto enable = [&](std::uint64_t node, bool is_enabled, std::uint64_t at) {
        auto record = change("cudaGraphNodeSetEnabled", 0x200, node, at);
        record.address = is_enabled ? 1 : 0;
        fixture.allocations(record);
    };
    const auto update = [&](std::uint64_t graph, std::uint64_t at) {
        fixture.allocations(change("cudaGraphExecUpdate", 0x200, graph, at));
        fixture.launch_graph(0x200, at + 1);
    };
    make(0x100, 0xa, 3'000);
    fixture.allocations(change("cudaGraphInstantiate", 0x200, 0x100, 3'010));
    SECTION("from the graph that it was made from, whose nodes are its own") {
        enable(0xb, false, 3'011);
        update(0x100, 4'000);
        CHECK(fixture.launches({"gemm"}) == 1);
        CHECK(fixture.launches({"reduce"}) == 0);
        CHECK(fixture.unknown() == 0);
    }
    SECTION("from a clone or a captured graph, of whose nodes it is not known which it is") {
        enable(0xb, false, 3'011);
        fixture.allocations(change("cudaGraphClone", 0x101, 0x100, 3'012));
        update(0x101, 4'000);
        fixture.capture(1, 0x102, 0x202, 4'002);
        update(0x102, 4'010);
        update(0x100, 4'020);  // nor afterwards
        CHECK(fixture.page("cuda_kernel_launches_total").empty());
        CHECK(fixture.unknown() == 3);
    }
    SECTION("from another graph, whose nodes pair by edges that are not known") {
        make(0x101, 0xc, 3'011);
        enable(0xb, false, 3'021);
        update(0x101, 4'000);
        CHECK(fixture.unknown() == 1);
    }
    SECTION("from another graph, if it makes no difference which node is which") {
        make(0x101, 0xc, 3'011);
        enable(0xa, false, 3'021);
        enable(0xb, false, 3'022);
        update(0x101, 4'000);
        CHECK(fixture.page("cuda_kernel_launches_total").empty());
        CHECK(fixture.unknown() == 0);
        // From here on it does: 0xb may be either of the other graph's nodes.
        enable(0xb, true, 4'002);
        fixture.launch_graph(0x200, 4'003);
        CHECK(fixture.page("cuda_kernel_launches_total").empty());
        CHECK(fixture.unknown() == 1);
        // In the graph that it was made from, nodes are its own, but which is disabled is not
        // known.
        update(0x100, 4'010);
        CHECK(fixture.unknown() == 2);
    }
    SECTION("from another graph, and then a node is changed or disabled") {
        make(0x101, 0xc, 3'011);
        update(0x101, 4'000);
        CHECK(fixture.unknown() == 0);
        CHECK(fixture.launches({"gemm"}) == 1);
        CHECK(fixture.launches({"reduce"}) == 1);
        enable(0xb, false, 4'002);
        fixture.launch_graph(0x200, 4'003);
        CHECK(fixture.unknown() == 1);
    }
    SECTION("from another graph, and back from its own") {
        make(0x101, 0xc, 3'011);
        update(0x101, 4'000);
        update(0x100, 4'010);
        enable(0xb, false, 4'012);
        fixture.launch_graph(0x200, 4'013);
        CHECK(fixture.launches({"gemm"}) == 3);
        CHECK(fixture.launches({"reduce"}) == 2);
        CHECK(fixture.unknown() == 0);
    }
    SECTION("if it is a node of a capture, whose work is not known") {
        fixture.capture(1, 0x102, 0x200, 3'011);
        enable(0xe, false, 3'020);
        update(0x102, 4'000);
        CHECK(fixture.unknown() == 1);
    }
    SECTION("if it was made from an unknown graph") {
        fixture.allocations(change("cudaGraphInstantiate", 0x200, 0x999, 3'011));
        update(0x100, 4'000);
        CHECK(fixture.unknown() == 0);
        CHECK(fixture.launches({"graph"}) == 2);
        fixture.allocations(change("cudaGraphInstantiate", 0x200, 0x999, 4'002));
        enable(0xe, false, 4'003);
        update(0x100, 4'010);
        CHECK(fixture.unknown() == 1);
    }
    SECTION("if the executable graph was not seen being made") {
        fixture.allocations(change("cudaGraphExecDestroy", 0x200, 0, 4'500));
        update(0x100, 5'000);
        CHECK(fixture.unknown() == 1);
    }
    SECTION("if only a lost record says so") {
        auto launch = graph_launch(0x200, 4'000);
        launch.losses = 1;
        fixture.calls(launch);
        fixture.apply_all();
        make(0x101, 0xc, 5'000);
        auto record = change("cudaGraphExecUpdate", 0x200, 0x101, 5'010);
        record.losses = 1;
        fixture.allocations(record);
        launch.head.ended_ns = 5'011;
        fixture.calls(launch);
        fixture.apply_all();
        CHECK(fixture.unknown() == 2);
    }
}

TEST_CASE("a graph can be captured into, launched inside a capture, cloned and added to") {
    GraphsFixture fixture;
    fixture.capture(1, 0x100, 0x200, 3'000);
    auto inner = captured("cudaGraphLaunch", 2, 4'001);
    inner.holds = CUDA_NODE_GRAPH;
    inner.address = 0x200;
    SECTION("the launch of a graph is captured") {
        fixture.allocations(change("cudaStreamBeginCapture", 2, 0, 4'000));
        fixture.allocations(inner);
        fixture.allocations(change("cudaGraphExecDestroy", 0x200, 0, 4'002));
        fixture.allocations(change("cudaStreamEndCapture", 2, 0x101, 4'003));
        fixture.allocations(change("cudaGraphInstantiate", 0x201, 0x101, 4'004));
        fixture.launch_graph(0x201, 4'005);
        CHECK(fixture.sum("cuda_graph_captured_total", {"graph"}) == 1);
        CHECK(fixture.launches({"gemm"}) == 1);
        CHECK(fixture.sum("cuda_memcpy_bytes_total", {"graph"}) == 100);
    }
    SECTION("a capture adds to a graph") {
        fixture.allocations(change("cudaStreamBeginCaptureToGraph", 2, 0x100, 4'000));
        fixture.allocations(launching(captured("cudaLaunchKernel", 2, 4'001), 0x20, 1));
        fixture.allocations(change("cudaStreamEndCapture", 2, 0x100, 4'002));
        fixture.allocations(change("cudaGraphInstantiate", 0x201, 0x100, 4'003));
        fixture.launch_graph(0x201, 4'004);
        CHECK(fixture.launches({"gemm"}) == 1);
        CHECK(fixture.launches({"reduce"}) == 1);
    }
    SECTION("nodes come into a graph while it is captured") {
        fixture.allocations(change("cudaStreamBeginCapture", 2, 0, 4'000));
        fixture.allocations(launching(captured("cudaLaunchKernel", 2, 4'001), 0x20, 1));
        fixture.allocations(
            launching(change("cudaGraphAddKernelNode", 0x101, 0xa, 4'002), 0x20, 3));
        fixture.allocations(change("cudaStreamEndCapture", 2, 0x101, 4'003));
        fixture.allocations(change("cudaGraphInstantiate", 0x201, 0x101, 4'004));
        fixture.launch_graph(0x201, 4'005);
        CHECK(fixture.launches({"reduce"}) == 2);
    }
    SECTION("a clone is another graph") {
        fixture.allocations(change("cudaGraphClone", 0x101, 0x100, 4'000));
        fixture.allocations(change("cudaGraphDestroy", 0x100, 0, 4'001));
        fixture.allocations(change("cudaGraphInstantiate", 0x201, 0x101, 4'002));
        fixture.launch_graph(0x201, 4'003);
        CHECK(fixture.launches({"gemm"}) == 1);
    }
    CHECK(fixture.unknown() == 0);
}

TEST_CASE("a handle that is given again while it is destroyed is the new graph") {
    GraphsFixture fixture;
    fixture.capture(1, 0x100, 0x200, 3'000);
    auto destroy = change("cudaGraphExecDestroy", 0x200, 0, 5'000);
    destroy.head.duration_ns = 900;  // from 4'100 on
    fixture.allocations(change("cudaGraphInstantiate", 0x200, 0x100, 4'500));
    fixture.allocations(destroy);
    fixture.launch_graph(0x200, 6'000);
    CHECK(fixture.unknown() == 0);
    destroy.head.ended_ns = 8'000;
    fixture.allocations(destroy);
    fixture.launch_graph(0x200, 9'000);
    CHECK(fixture.unknown() == 1);
}

TEST_CASE("the direction of a copy is what its pointers were when it was captured") {
    GraphsFixture fixture;
    fixture.allocations(allocation(0x10'000, 4'096, 2'000));
    fixture.allocations(change("cudaStreamBeginCapture", 1, 0, 3'000));
    fixture.allocations(
        copying(captured("cudaMemcpyAsync", 1, 3'001), 0x10'010, 0x50, 64, COPY_DEFAULT));
    fixture.allocations(change("cudaStreamEndCapture", 1, 0x100, 3'002));
    fixture.allocations(change("cudaGraphInstantiate", 0x200, 0x100, 3'003));
    fixture.allocations(release(allocation(0x10'000, 4'096, 2'000), 3'004));
    fixture.launch_graph(0x200, 3'005);
    CHECK(fixture.sum("cuda_memcpy_bytes_total", {"h2d", "graph"}) == 64);
}

TEST_CASE("a process that makes too many graphs, or too large ones, makes them unknown", "[bulk]") {
    KnownGraphs known;
    GraphWork work;
    work.does = CUDA_NODE_LAUNCH;
    known.change(change("cudaGraphCreate", 1, 0, 1'000), {});
    for (std::uint64_t node = 1; node <= max_graph_entries; node++) {
        work.launch.kernel = node;
        known.change(launching(change("cudaGraphAddKernelNode", 1, node, 2'000), node, 1), work);
    }
    CHECK(known.entries() == 0);  // the graph, and what is known of it
    known.change(change("cudaGraphInstantiate", 2, 1, 3'000), {});
    CHECK(known.executable(2) == nullptr);
    for (std::uint64_t handle = 10; handle < 10 + max_graphs + 5; handle++) {
        known.change(change("cudaGraphCreate", handle, 0, 4'000), {});
        known.change(change("cudaGraphInstantiate", handle, handle, 4'001), {});
    }
    CHECK(known.executable(10) != nullptr);
    CHECK(known.executable(10 + max_graphs + 4) == nullptr);
}

TEST_CASE("contents give their entries back when nobody has them any more") {
    KnownGraphs known;
    GraphWork work;
    work.does = CUDA_NODE_LAUNCH;
    known.change(change("cudaGraphCreate", 1, 0, 1'000), {});
    known.change(change("cudaGraphAddKernelNode", 1, 0xa, 1'001), work);
    known.change(change("cudaGraphInstantiate", 2, 1, 1'002), {});
    CHECK(known.entries() == 2);
    known.change(change("cudaGraphNodeSetEnabled", 2, 0xa, 1'003), {});
    CHECK(known.entries() == 3);  // its node, without the launch
    known.change(change("cudaGraphDestroy", 1, 0, 3'000), {});
    known.change(change("cudaGraphExecDestroy", 2, 0, 3'001), {});
    CHECK(known.entries() == 0);
}

TEST_CASE("what graphs of one user's processes run leaves room for those of others") {
    constexpr std::size_t entry = EntryBudget::bytes_of_entry;
    const auto room = std::make_shared<UserRoom>(
        UserRoom::Limits{.bytes = 20 * entry, .bytes_of_user = 10 * entry});
    EntryBudget first(100);
    EntryBudget other(100);
    first.limit_by(UserShare(room, 1000));
    other.limit_by(UserShare(room, 2000));
    {
        EntryBudget second(100);
        second.limit_by(UserShare(room, 1000));
        first.take(4);
        second.take(4);
        CHECK(first.has_room_for(2));
        CHECK_FALSE(first.has_room_for(3));
        CHECK_FALSE(second.has_room_for(3));
        CHECK(other.has_room_for(10));
        CHECK_FALSE(other.has_room_for(11));
        first.give_back(1);
        CHECK(second.has_room_for(3));
    }
    CHECK(first.has_room_for(7));  // the second process has ended
    CHECK_FALSE(first.has_room_for(8));
}
