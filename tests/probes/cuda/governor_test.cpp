// What the probes may cost a process: its launches are seen in turns, all else and all others
// exactly.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "tests/harness/calls_truth.h"
#include "tests/harness/counting.h"
#include "tests/harness/cuda_truth.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

using namespace harness;

namespace {

constexpr const char *launches_family = "gpusnoop_cuda_kernel_launches_total";
constexpr const char *unobserved_family = "gpusnoop_cuda_launches_unobserved_seconds_total";
constexpr const char *estimated_family = "gpusnoop_cuda_launches_unobserved_total";

// 2 %: a slow launcher costs less where a probe is expensive, too, and a fast one costs more where
// another exporter makes its calls slow.
std::string cuda_governor_config(const std::string &mode, const std::string &endings) {
    return "log: {level: debug}\ncuda: {attach: " + mode + ", endings: " + endings +
           ", max_overhead: 2%}\n";
}

struct Launcher {
    TemporaryDirectory truths;
    std::string comm;
    Process process;

    explicit Launcher(std::string name, std::vector<std::string> more = {})
        : comm(std::move(name)),
          process(command(comm, std::move(more)), {{"STANDIN_TRUTH_DIR", truths.path().string()}}) {
        process.wait_for_output("ready");
    }

    static std::vector<std::string> command(const std::string &comm,
                                            std::vector<std::string> more) {
        more.insert(more.begin(), standin("launcher"));
        more.insert(more.end(), {"--name", comm});
        return more;
    }

    [[nodiscard]] Labels of() const { return {{"comm", comm}}; }
    [[nodiscard]] truth::TruthSnapshot truth() const { return truth_of(truths.path(), comm); }
    [[nodiscard]] std::string pid() const { return std::to_string(process.pid()); }

    // It allocates after some thousand launches, so a slow machine may take a while to the first.
    [[nodiscard]] std::uint64_t allocations() const {
        // Before its first call there is no truth of it.
        return truth::read_truth(truths.path()).empty() ? 0 : truth().calls("cudaMalloc");
    }
    void wait_for_allocations(std::uint64_t least) const {
        eventually("memory to be renewed", [&] { return allocations() >= least; });
    }

    // From fast or idle to slow, and from slow to idle.
    void be(const std::string &pace) const {
        const std::size_t before = count(process.output(), pace);
        process.signal(SIGUSR1);
        eventually(comm + " to be " + pace, [&] { return count(process.output(), pace) > before; });
    }
};

const std::vector<std::string> slowly = {"--rate", "1"};

double seen(const Page &page, const Launcher &launcher) {
    return page.sum(launches_family, launcher.of());
}

void check_all_seen(const Exporter &exporter, const Launcher &idle) {
    CAPTURE(idle.comm);
    const double launches = number(idle.truth().launches);
    REQUIRE(launches > 0);
    const Page page = exporter.wait_for(launches_family, idle.of(), launches);
    check_counters(page, idle.truth(), idle.comm, {}, Launches::counted);
    CHECK_FALSE(page.has(unobserved_family, idle.of()));
}

// It rests or has ended.
void check_memory(const Exporter &exporter, const Launcher &launcher) {
    const std::uint64_t allocations = launcher.allocations();
    REQUIRE(allocations > 0);
    (void)exporter.wait_for("gpusnoop_cuda_memory_allocations_total", launcher.of(),
                            number(allocations));
    (void)exporter.wait_for("gpusnoop_cuda_memory_frees_total", launcher.of(),
                            number(allocations) - 1);
}

// It holds the libraries, so that the probes are there before the others begin.
struct Node {
    TemporaryDirectory directory;
    Exporter exporter;
    Process holder;

    explicit Node(const std::string &mode, const std::string &endings = "auto",
                  const std::string &more = "")
        : exporter(cuda_governor_config(mode, endings) + more), holder(hold(exporter)) {
        exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
        eventually("the cost of a probe to be measured", [&] {
            return exporter.scrape().has("gpusnoop_probe_cost_seconds", {{"mode", mode}});
        });
    }

    void wait_for_pause(const Launcher &launcher) const {
        eventually("launches that are not seen", [&] {
            if (exporter.scrape().sum(unobserved_family, launcher.of()) == 0) {
                return false;
            }
            const double launches = number(launcher.truth().launches);
            return seen(exporter.scrape(), launcher) < launches;
        });
    }

    // Begins when the exporter has given it links of its own.
    void start_late(std::optional<Launcher> &late) const {
        const std::string go = (directory.path() / "go").string();
        late.emplace("late", std::vector<std::string>{"--rate", "1", "--wait-for-file", go});
        eventually("a link for it", [&] {
            return count(exporter.log(), "pid=" + late->pid() + " functions=") >= 1;
        });
        write_file(go, "");
        late->process.wait_for_output("slow");
    }
};

}  // namespace

TEST_CASE("a process that costs too much has its launches seen in turns, and nothing else changes",
          "[kernel]") {
    require_bpf();
    const Node node(attach_modes().front());
    const Exporter &exporter = node.exporter;
    const Launcher light("light", slowly);
    const Launcher heavy("heavy");
    exporter.wait_for_log("pid=" + heavy.pid() + " overhead=");
    node.wait_for_pause(heavy);
    heavy.wait_for_allocations(1);

    std::optional<Launcher> late;
    node.start_late(late);
    const double before = seen(exporter.scrape(), heavy);
    eventually("another turn", [&] { return seen(exporter.scrape(), heavy) > before; });

    heavy.be("slow");
    exporter.wait_for_log("no longer paused\" probe=cuda pid=" + heavy.pid());
    for (const Launcher *launcher :
         std::initializer_list<const Launcher *>{&heavy, &light, &*late}) {
        launcher->be("idle");
    }
    check_all_seen(exporter, light);
    check_all_seen(exporter, *late);
    check_memory(exporter, heavy);
    check_outstanding(exporter.scrape(), heavy.truth());

    // Below the limit, it is as exact as any other.
    const double launches = number(heavy.truth().launches);
    const Page page = exporter.scrape();
    const double unseen = launches - seen(page, heavy);
    REQUIRE(unseen > 0);
    // It allocates after each so many launches, so that these show how many there were. How exact
    // that is depends on how long its turns are here.
    const double estimated = page.sum(estimated_family, heavy.of());
    CAPTURE(unseen, estimated);
    CHECK(estimated > unseen / 2);
    CHECK(estimated < unseen * 2);
    CHECK_FALSE(page.has(estimated_family, light.of()));
    const auto bound = [&](const std::string &which) {
        return page.sum("gpusnoop_cuda_launches_unobserved_bound_total",
                        {{"comm", heavy.comm}, {"bound", which}});
    };
    CHECK(bound("lower") > 0);
    CHECK(bound("lower") <= estimated + 1);
    CHECK(bound("upper") + 1 >= estimated);
    heavy.be("slow");
    heavy.be("idle");
    const double all = number(heavy.truth().launches);
    REQUIRE(all > launches);
    (void)exporter.wait_for(launches_family, heavy.of(), all - unseen);
    check_account_at_rest(exporter);
}

TEST_CASE("a process that begins while its runtime's launches are counted has the same limit",
          "[kernel]") {
    require_bpf();
    const Node node(attach_modes().front());
    const Launcher first("first");
    node.wait_for_pause(first);
    const Launcher second("second");
    node.wait_for_pause(second);
    node.exporter.wait_for_log("pid=" + second.pid() + " overhead=");
}

TEST_CASE("a process that ends in a pause leaves all others as they were", "[kernel]") {
    require_bpf();
    const std::string endings = GENERATE("auto", "exits");
    CAPTURE(endings);
    const Node node(attach_modes().front(), endings);
    const Exporter &exporter = node.exporter;
    {
        Launcher heavy("heavy");
        heavy.wait_for_allocations(1);
        node.wait_for_pause(heavy);
        heavy.process.signal(SIGTERM);
        CHECK(heavy.process.wait() == 0);
        check_memory(exporter, heavy);
    }
    eventually("the probes to be at both ends again, of both files",
               [&] { return count(exporter.log(), "both ends of kernel launches again") >= 2; });
    const Launcher next("next", slowly);
    next.process.wait_for_output("slow");
    next.be("idle");
    check_all_seen(exporter, next);
    check_account_at_rest(exporter);
}

TEST_CASE("a launch that is in flight when a pause begins encloses nothing that comes after it",
          "[kernel]") {
    require_bpf();
    const std::string endings = GENERATE("auto", "exits");
    CAPTURE(endings);
    const Node node(attach_modes().front(), endings);
    const Exporter &exporter = node.exporter;
    // A few percent of its time, so that it is in the long launch when that is too much.
    const Launcher heavy("heavy", {"long", endings == "exits" ? "2000" : "20000"});
    // The next calls are deeper in the stack.
    eventually("a long launch to be cut off", [&] {
        return exporter.scrape().sum("gpusnoop_probe_stale_calls_total", {{"probe", "cuda"}}) > 0;
    });
    heavy.wait_for_allocations(heavy.allocations() + 2);
    heavy.be("slow");
    heavy.be("idle");
    check_memory(exporter, heavy);
    check_outstanding(exporter.scrape(), heavy.truth());
}

TEST_CASE("kernels are learned while another process has pauses, and no runtime is taken for odd",
          "[kernel]") {
    require_bpf();
    const Launcher early("early");
    early.be("slow");
    early.be("idle");
    const double earlier = number(early.truth().launches);
    const Node node(attach_modes().front());
    const Exporter &exporter = node.exporter;
    const Launcher heavy("heavy");
    node.wait_for_pause(heavy);
    early.be("slow");
    eventually("the kernel that it looked up before to have a name", [&] {
        const Page page = exporter.scrape();
        return page.sum(launches_family, early.of()) >
               page.sum(launches_family, {{"comm", early.comm}, {"kernel", "unknown"}});
    });
    // For some more turns and pauses.
    const double before = seen(exporter.scrape(), heavy);
    eventually("another turn", [&] { return seen(exporter.scrape(), heavy) > before; });
    early.be("idle");
    CHECK(count(exporter.log(), "do not each make one launch") == 0);
    (void)exporter.wait_for(launches_family, early.of(), number(early.truth().launches) - earlier);
    CHECK_FALSE(exporter.scrape().has(unobserved_family, early.of()));
}

TEST_CASE("a named function that costs a process too much is no reason to pause its launches",
          "[kernel]") {
    require_bpf();
    const std::string mode = attach_modes().front();
    const Node node(
        mode, "auto",
        own_groups(mode) +
            "    peeks: {libraries: [\"libcudart.so*\"], functions: [cudaPeekAtLastError]}\n");
    const Exporter &exporter = node.exporter;
    const Launcher peeks("peeks", {"peek", "100", "--rate", "1"});
    eventually("pauses of the function",
               [&] { return count(exporter.log(), "they are observed intermittently") >= 3; });
    peeks.be("idle");
    check_all_seen(exporter, peeks);
    CHECK(count(exporter.log(), "its kernel launches are counted intermittently") == 0);
}
