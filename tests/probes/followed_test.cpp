// The table of followed processes: what enters it, as what, and when it leaves.
#include <signal.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "exporter/config/config.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/frame/libraries/start_discovery.h"
#include "exporter/probes/frame/processes/traced_processes.h"
#include "exporter/probes/frame/registry.h"
#include "tests/harness/exporter.h"

using namespace harness;
using namespace gpusnoop;

namespace {

// No process has this id: those that the test starts are its children.
constexpr std::uint32_t nobody = 1U << 30U;

// The probe cuda, and the table behind it.
class Follower {
public:
    explicit Follower(const std::string &yaml, probes::Following following = {},
                      const probes::TargetsConfig &targets = {}) {
        const auto blocks = probes::setting_blocks();
        auto parsed = config::parse(yaml, "test", blocks);
        REQUIRE(parsed);
        config_ = std::move(*parsed);
        features_ = ebpf::probe_features();
        following.enabled = true;
        following.except = nobody;
        traced_ =
            std::make_shared<probes::TracedProcesses>(targets, std::chrono::seconds(30), following);
        cuda_ = probes::all_probes().front()->make(config_, features_,
                                                   {.traced = traced_, .sinks = nullptr});
        REQUIRE(cuda_->start());
        auto discovery = probes::start_discovery(config_, *cuda_->attacher());
        REQUIRE(discovery);
        discovery_ = std::move(*discovery);
        auto followed = traced_->follow();
        REQUIRE(followed);
        followed_ = *followed;
        followed_->on_record([this](const auto &record, const auto &process) {
            records_.emplace_back(record, process.comm);
        });
    }

    [[nodiscard]] std::optional<probes::FollowedProcesses::Entry> find(pid_t pid) {
        cuda_->drain();
        followed_->drain();
        const auto running = followed_->running();
        const auto found = std::ranges::find_if(running, [&](const auto &one) {
            return one.key.tgid == static_cast<std::uint32_t>(pid);
        });
        return found == running.end() ? std::nullopt : std::optional(*found);
    }
    [[nodiscard]] std::string role(pid_t pid) {
        const auto entry = find(pid);
        return entry ? std::string(probes::role_name(entry->reasons)) : "";
    }
    void wait_for(pid_t pid, const std::string &role) {
        eventually("process " + std::to_string(pid) + " to be " + (role.empty() ? "gone" : role),
                   [&] { return this->role(pid) == role; });
    }
    [[nodiscard]] std::size_t times(std::uint32_t type, const std::string &comm) {
        followed_->drain();
        return static_cast<std::size_t>(std::ranges::count_if(records_, [&](const auto &one) {
            return one.first.head.type == type && one.second == comm;
        }));
    }
    [[nodiscard]] probes::FollowedProcesses &followed() { return *followed_; }

private:
    config::Config config_;
    ebpf::Features features_;
    std::shared_ptr<probes::TracedProcesses> traced_;
    std::unique_ptr<probes::Probe> cuda_;
    std::unique_ptr<discovery::Discovery> discovery_;
    probes::FollowedProcesses *followed_ = nullptr;
    std::vector<std::pair<follow_record, std::string>> records_;
};

Process followed_lives(std::vector<std::string> steps) {
    steps.insert(steps.begin(), standin("lives"));
    return Process(std::move(steps));
}

// Has the libraries attached to from the start.
Process followed_hold() {
    Process holder = followed_lives({"name", "holder", "wait"});
    holder.wait_for_output("waiting 1");
    return holder;
}

// The processes that it has said are idle.
std::vector<pid_t> followed_idle(const Process &process, std::size_t expected) {
    std::vector<pid_t> pids;
    eventually("all children to be idle", [&] {
        pids.clear();
        std::istringstream words(process.output());
        for (std::string word; words >> word;) {
            if (word == "idle" && words >> word) {
                pids.push_back(std::stoi(word));
            }
        }
        return pids.size() == expected;
    });
    return pids;
}

probes::TargetsConfig followed_named(const std::string &comm) {
    probes::TargetsConfig targets;
    targets.gpu_processes = false;
    targets.comms = {comm};
    return targets;
}

}  // namespace

TEST_CASE("a process is followed from its first CUDA call on, and what it starts then",
          "[kernel]") {
    require_bpf();
    const std::string mode = GENERATE(from_range(attach_modes()));
    CAPTURE(mode);
    const Process holder = followed_hold();
    Follower follower(attached_by(mode));
    Process process =
        followed_lives({"name", "root", "idle", "1", "wait", "cuda", "idle", "2", "family",
                        "caller", "orphan", "execs", "3", "wait", "exec", "wait"});
    process.wait_for_output("waiting 1");
    CHECK(follower.role(process.pid()).empty());
    const pid_t early = followed_idle(process, 1).front();
    CHECK(follower.role(early).empty());
    process.go_on_to(2);
    const std::vector<pid_t> children = followed_idle(process, 7);
    follower.wait_for(process.pid(), "gpu");
    follower.wait_for(early, "worker");  // found by its parent
    std::size_t callers = 0;
    for (const pid_t child : children) {
        const auto entry = follower.find(child);
        REQUIRE(entry);
        callers += probes::role_name(entry->reasons) == "gpu" ? 1 : 0;
        CHECK(entry->root == static_cast<std::uint32_t>(process.pid()));
    }
    CHECK(callers == 1);
    CHECK(follower.role(holder.pid()).empty());
    CHECK(follower.times(FOLLOW_PROMOTED, "root") == 1);
    // Also the parent of the orphan, and those that have become another program.
    CHECK(follower.times(FOLLOW_STARTED, "root") == 1 + 6 + 1 + 3);
    CHECK(follower.times(FOLLOW_ENDED, "root") == 1);
    CHECK(follower.times(FOLLOW_EXECED, "root") == 3);
    CHECK(follower.times(FOLLOW_STARTED, "lives") == 3);
    CHECK(follower.times(FOLLOW_ENDED, "lives") == 3);

    // The next program has made no call; its children stay what they are.
    process.signal(SIGUSR1);
    follower.wait_for(process.pid(), "");
    CHECK(follower.times(FOLLOW_EXECED, "root") == 4);
    for (const pid_t child : children) {
        CHECK(follower.role(child) != "");
    }
    process.signal(SIGKILL);
    (void)process.wait();
    for (const pid_t child : children) {
        ::kill(child, SIGKILL);
        follower.wait_for(child, "");
    }
    const auto counts = follower.followed().counts();
    CHECK(counts.entered == counts.events);
}

TEST_CASE("processes that the configuration names are followed, and their descendants",
          "[kernel]") {
    require_bpf();
    const bool descendants = GENERATE(true, false);
    CAPTURE(descendants);
    Process before = followed_lives({"name", "of_config", "family", "wait"});
    before.wait_for_output("waiting 1");
    Follower follower("", {.descendants = descendants}, followed_named("of_con[f]ig"));
    CHECK(follower.role(before.pid()) == "gpu");
    for (const pid_t child : followed_idle(before, 2)) {
        CHECK(follower.role(child) == "gpu");  // they have the name
    }
    Process other = followed_lives({"name", "other", "cuda", "idle", "1", "wait"});
    other.wait_for_output("waiting 1");
    CHECK(follower.role(other.pid()).empty());
    CHECK(follower.role(followed_idle(other, 1).front()).empty());
    before.signal(SIGKILL);
    (void)before.wait();
    follower.wait_for(before.pid(), "");
}

TEST_CASE("without descendants, only GPU processes are followed", "[kernel]") {
    require_bpf();
    const Process holder = followed_hold();
    Follower follower("", {.descendants = false});
    Process process = followed_lives({"idle", "1", "wait", "cuda", "family", "caller", "wait"});
    process.go_on_to(2);
    follower.wait_for(process.pid(), "gpu");
    std::size_t gpu = 0;
    for (const pid_t child : followed_idle(process, 4)) {
        gpu += follower.role(child) == "gpu" ? 1 : 0;
    }
    CHECK(gpu == 1);
}
