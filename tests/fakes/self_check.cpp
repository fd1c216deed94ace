// self_check [workload options]: makes the calls of `workload --everything`, and compares the truth
// with the account that the program kept of them itself. Exit code 1 and a line for each
// difference.

#include "truth_reader.h"
#include "workload/everything.h"
#include "workload/options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include <unistd.h>

namespace {

int g_differences = 0;

void compare(const std::string &what, std::uint64_t truth, std::uint64_t account) {
    if (truth != account) {
        ++g_differences;
        std::printf("%s: the truth has %llu, the program %llu\n", what.c_str(),
                    static_cast<unsigned long long>(truth),
                    static_cast<unsigned long long>(account));
    }
}

void compare_memory(const std::string &what, const truth::Memory &truth,
                    const truth::Memory &account) {
    compare(what + "allocations", truth.allocations, account.allocations);
    compare(what + "allocated_bytes", truth.allocated_bytes, account.allocated_bytes);
    compare(what + "empty_allocations", truth.empty_allocations, account.empty_allocations);
    compare(what + "frees", truth.frees, account.frees);
    compare(what + "freed_bytes", truth.freed_bytes, account.freed_bytes);
    compare(what + "untracked_frees", truth.untracked_frees, account.untracked_frees);
    compare(what + "freed_by_reset", truth.freed_by_reset, account.freed_by_reset);
    compare(what + "freed_by_reset_bytes", truth.freed_by_reset_bytes,
            account.freed_by_reset_bytes);
    compare(what + "outstanding_allocations", truth.outstanding_allocations,
            account.outstanding_allocations);
    compare(what + "outstanding_bytes", truth.outstanding_bytes, account.outstanding_bytes);
}

void compare_calls(const std::string &what, const truth::Copies &truth,
                   const truth::Copies &account) {
    compare(what + "calls", truth.calls, account.calls);
    compare(what + "bytes", truth.bytes, account.bytes);
}

void compare_device(std::size_t device, const truth::TruthSnapshot &truth,
                    const truth::TruthSnapshot &account) {
    const std::string what = "device " + std::to_string(device) + " ";
    for (std::size_t kind = 0; kind < truth::kMemoryKinds; ++kind) {
        compare_memory(what + "memory " + std::to_string(kind) + " ", truth.memory[device][kind],
                       account.memory[device][kind]);
    }
    for (std::size_t mode = 0; mode < truth::kCopyModes; ++mode) {
        const std::string suffix = " mode " + std::to_string(mode) + " ";
        for (std::size_t kind = 0; kind < truth::kCopyKinds; ++kind) {
            compare_calls(what + "copies " + std::to_string(kind) + suffix,
                          truth.copies[device][kind][mode], account.copies[device][kind][mode]);
        }
        compare_calls(what + "memsets" + suffix, truth.memsets[device][mode],
                      account.memsets[device][mode]);
    }
    compare(what + "graph launches", truth.graph_launches[device], account.graph_launches[device]);
    for (std::size_t one = 0; one < truth::kCaptured; ++one) {
        compare(what + "captured " + std::to_string(one), truth.captured[device][one],
                account.captured[device][one]);
    }
    compare(what + "synchronizations", truth.synchronizations[device],
            account.synchronizations[device]);
}

template <typename Map, typename Describe>
void compare_maps(const Map &truth, const Map &account, Describe describe) {
    Map all = truth;
    all.insert(account.begin(), account.end());
    for (const auto &[key, ignored] : all) {
        const auto of_truth = truth.find(key);
        const auto of_account = account.find(key);
        compare(describe(key), of_truth == truth.end() ? 0 : of_truth->second,
                of_account == account.end() ? 0 : of_account->second);
    }
}

void compare_all(const truth::TruthSnapshot &truth, const truth::TruthSnapshot &account) {
    for (std::size_t device = 0; device < truth::kDevices; ++device) {
        compare_device(device, truth, account);
    }
    compare("launches", truth.launches, account.launches);
    compare("launches by graphs", truth.launches_by_graphs, account.launches_by_graphs);
    compare("launches unlisted", truth.launches_unlisted, 0);
    compare("empty frees", truth.empty_frees, account.empty_frees);
    compare("elapsed times", truth.elapsed_times, account.elapsed_times);
    compare("elapsed nanoseconds", truth.elapsed_ns, account.elapsed_ns);
    compare("elapsed times that cannot be", truth.elapsed_invalid, 0);
    compare("nested calls", truth.nested_calls, truth.nested_entered);
    compare_maps(truth.launch_table, account.launch_table, [](const truth::LaunchKey &key) {
        return "launches of " + key.kernel + " on device " + std::to_string(key.device);
    });
    compare_maps(truth.graph_launch_table, account.graph_launch_table,
                 [](const truth::LaunchKey &key) {
                     return "launches by graphs of " + key.kernel + " on device " +
                            std::to_string(key.device);
                 });
    compare_maps(truth.results, account.results, [](const std::pair<std::string, int> &key) {
        return key.first + " with result " + std::to_string(key.second);
    });
    compare_maps(truth.entered, account.entered,
                 [](const std::string &function) { return function + " entered"; });
}

// Functions that the calls of this API must have included.
void check_coverage(const demo::Options &options, const truth::TruthSnapshot &truth) {
    std::set<std::string> wanted;
#define WANTED(name, ...) wanted.insert(#name);
    if (options.api != demo::Api::driver) {
        CUDA_RUNTIME_FUNCTIONS(WANTED)
        STANDIN_GRAPH_RUNTIME_FUNCTIONS(WANTED)
    }
    if (options.api != demo::Api::runtime) {
        CUDA_DRIVER_FUNCTIONS(WANTED)
        STANDIN_GRAPH_DRIVER_FUNCTIONS(WANTED)
    }
#undef WANTED
    // An alias, and what happens before main.
    wanted.erase("cudaLaunchKernel_ptsz");
    wanted.erase("__cudaRegisterFunction");
    if (!options.resets) {
        wanted.erase("cudaDeviceReset");
        // Failures have it too.
        wanted.erase("cuDevicePrimaryCtxReset_v2");
    }
    for (const std::string &function : wanted) {
        if (truth.result(function, 0) == 0) {
            ++g_differences;
            std::printf("%s never succeeded\n", function.c_str());
        }
    }
}

int check(int argc, char **argv) {
    demo::Options options = demo::parse_options(argc, argv);
    options.graphs = true;
    char directory[] = "/tmp/self_check.XXXXXX";
    if (mkdtemp(directory) == nullptr) {
        std::perror(directory);
        return 2;
    }
    setenv("STANDIN_TRUTH_DIR", directory, 1);
    std::deque<demo::Everything> all;
    {
        std::vector<std::jthread> threads;
        for (unsigned index = 0; index < options.threads; ++index) {
            demo::Everything &one = all.emplace_back(options, index);
            if (options.api != demo::Api::driver) {
                add_runtime_actions(one);
            }
            if (options.api != demo::Api::runtime) {
                add_driver_actions(one);
            }
        }
        for (demo::Everything &one : all) {
            threads.emplace_back([&one] { one.run(); });
        }
    }
    std::vector<truth::TruthSnapshot> accounts;
    std::ranges::transform(all, std::back_inserter(accounts), &demo::Everything::tally);
    const auto truths = truth::read_truth(directory);
    std::filesystem::remove_all(directory);
    compare("truth files", truths.size(), 1);
    if (truths.size() == 1) {
        compare_all(truths.front(), truth::sum(accounts));
        if (std::getenv("STANDIN_FAIL_EVERY") == nullptr) {
            check_coverage(options, truths.front());
        }
    }
    std::printf("%d differences\n", g_differences);
    return g_differences == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
    try {
        return check(argc, argv);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "self_check: %s\n", error.what());
        return 1;
    }
}
