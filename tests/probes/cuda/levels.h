// Programs that launch kernels, and bring the launches of all programs with their runtime to a
// level of observation (docs/cuda.md).
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/harness/counting.h"
#include "tests/harness/cuda_workload.h"
#include "tests/harness/exporter.h"

namespace harness {

inline constexpr const char *counted_launches_family = "gpusnoop_cuda_kernel_launches_total";
inline constexpr const char *counted_durations_family =
    "gpusnoop_cuda_kernel_launch_duration_seconds_count";
inline constexpr const char *unobserved_launches_family =
    "gpusnoop_cuda_launches_unobserved_seconds_total";

// Of the hidden tests that take as long as they are told.
inline double levels_seconds() {
    const char *const text = std::getenv("GPUSNOOP_LEVELS_SECONDS");
    return text != nullptr ? std::atof(text) : 60;
}

inline std::string levels_config(const std::string &mode, const std::string &max_overhead,
                                 const std::string &endings = "auto") {
    return "log: {level: debug}\ncuda: {attach: " + mode + ", endings: " + endings +
           ", max_overhead: " + max_overhead + "}\n";
}

// A program with truths of its own.
struct CountedRun {
    TemporaryDirectory truths;
    std::string comm;
    Process process;

    CountedRun(std::string name, std::vector<std::string> command,
               Process::Environment environment = {})
        : comm(std::move(name)),
          process(start(truths, comm, std::move(command), std::move(environment))) {}

    static Process start(const TemporaryDirectory &truths, const std::string &comm,
                         std::vector<std::string> command, Process::Environment environment) {
        environment["STANDIN_TRUTH_DIR"] = truths.path().string();
        command.front() = standin(command.front());
        command.insert(command.end(), {"--name", comm});
        return Process(command, environment);
    }

    [[nodiscard]] Labels of() const { return {{"comm", comm}}; }
    [[nodiscard]] truth::TruthSnapshot truth() const { return truth_of(truths.path(), comm); }
    void be(const std::string &pace, int by_signal) const {
        const std::size_t before = count(process.output(), pace);
        process.signal(by_signal);
        eventually(comm + " to be " + pace, [&] { return count(process.output(), pace) > before; });
    }

    // From whatever pace.
    void rest() const {
        eventually(comm + " to be idle", [&] {
            const std::string said = process.output();
            const std::size_t end = said.find_last_not_of('\n') + 1;
            if (said.substr(0, end).ends_with("idle")) {
                return true;
            }
            process.signal(SIGUSR1);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            return false;
        });
    }

    [[nodiscard]] double launches_on(const Page &page) const {
        return page.sum(counted_launches_family, of());
    }
    [[nodiscard]] double timed_on(const Page &page) const {
        return page.sum(counted_durations_family, of());
    }
    [[nodiscard]] double untimed(const Exporter &exporter) const {
        const Page page = exporter.scrape();
        return launches_on(page) - timed_on(page);
    }
    void wait_until_counted(const Exporter &exporter) const {
        eventually("launches without a duration, and none with one", [&] {
            const double before = untimed(exporter);
            const double timed = timed_on(exporter.scrape());
            eventually("more launches", [&] { return untimed(exporter) > before + 500; });
            return timed_on(exporter.scrape()) == timed;
        });
    }
    void wait_until_seen(const Exporter &exporter) const {
        eventually("launches with a duration again", [&] {
            const double timed = timed_on(exporter.scrape());
            const double before = untimed(exporter);
            eventually("more launches", [&] {
                return timed_on(exporter.scrape()) > timed || untimed(exporter) > before;
            });
            return untimed(exporter) == before;
        });
    }
    void wait_until_unobserved(const Exporter &exporter) const {
        const double before = exporter.scrape().sum(unobserved_launches_family, of());
        eventually("launches that are not observed", [&] {
            return exporter.scrape().sum(unobserved_launches_family, of()) > before;
        });
    }
};

// Launches so fast that all launches by its runtime are counted, and not so fast that it has to
// pause, where a probe costs ten times as much, too.
struct Fast : CountedRun {
    explicit Fast(const std::string &name = "fast")
        : CountedRun(name, {"launcher", "paced", "20"}) {
        process.wait_for_output("ready");
    }
};

// When the first call is made, both libraries are attached to, and what a probe costs is known.
inline Process ready_for_launches(const Exporter &exporter, const std::string &mode) {
    Process holder = hold(exporter);
    exporter.wait_until_attached_to(standin("12/libcudart.so.12"));
    eventually("the cost of a probe to be measured", [&] {
        return exporter.scrape().has("gpusnoop_probe_cost_seconds", {{"mode", mode}});
    });
    return holder;
}

// Programs that hold their runtime at a level, or change it all the time: "full", "counted",
// "intermittent" and "changing".
class Neighbours {
public:
    Neighbours(const Exporter &exporter, const std::string &level) {
        if (level == "counted" || level == "changing") {
            programs_.push_back(std::make_unique<Fast>("neighbour"));
            programs_.back()->wait_until_counted(exporter);
        }
        if (level == "intermittent" || level == "changing") {
            programs_.push_back(
                std::make_unique<CountedRun>("greedy", std::vector<std::string>{"launcher"}));
            programs_.back()->wait_until_unobserved(exporter);
        }
        if (level == "changing") {
            for (const auto &program : programs_) {
                changing_.emplace_back([&process = program->process](const std::stop_token &stop) {
                    change(process, stop);
                });
            }
        }
    }

    // They launch no more.
    void rest() {
        changing_.clear();
        for (const auto &program : programs_) {
            program->rest();
        }
    }

private:
    static constexpr std::chrono::milliseconds step{100};

    // It asserts nothing, as it is another thread.
    static void change(const Process &process, const std::stop_token &stop) {
        while (!stop.stop_requested()) {
            process.signal(SIGUSR2);
            wait(10, stop);
            process.signal(SIGUSR1);
            wait(15, stop);
        }
    }
    static void wait(int steps, const std::stop_token &stop) {
        for (int i = 0; i < steps && !stop.stop_requested(); i++) {
            std::this_thread::sleep_for(step);
        }
    }

    std::vector<std::unique_ptr<CountedRun>> programs_;
    std::vector<std::jthread> changing_;  // the last: they end before the programs
};

}  // namespace harness
