#include "exporter/probes/frame/processes/target_settings.h"

#include <utility>

#include "exporter/base/text/text.h"
#include "exporter/config/globs.h"
#include "exporter/config/reader.h"

namespace gpusnoop::probes {

namespace {

constexpr std::size_t max_pids = 1'000;
constexpr std::size_t short_id = 12;  // as container runtimes print it
constexpr std::size_t whole_id = 64;

std::string container_problem(const std::string &id) {
    if (id.size() < short_id || id.size() > whole_id ||
        id.find_first_not_of("0123456789abcdef") != std::string::npos) {
        return in_quotes(id) + " is not a container's id: its first 12 to 64 hexadecimal digits";
    }
    return "";
}

std::vector<std::uint32_t> read_pids(const std::vector<config::Value> &items) {
    std::vector<std::uint32_t> pids;
    for (const config::Value &item : items) {
        if (const auto pid = item.integer(1, 1U << 22U)) {
            pids.push_back(*pid);
        }
    }
    return pids;
}

}  // namespace

bool names_any(const TargetsConfig &targets) {
    return !targets.all_processes && (!targets.pids.empty() || !targets.parents.empty() ||
                                      !targets.comms.empty() || !targets.containers.empty());
}

void read_targets(config::Section targets, config::Config &config) {
    TargetsConfig value;
    targets.boolean("gpu_processes", value.gpu_processes);
    targets.accept_old_name("all_processes", "everything");
    targets.boolean("all_processes", value.all_processes);
    if (const config::Value *pids = targets.find("pids")) {
        if (const auto items = pids->list("a list of process ids", "process ids", 0, max_pids)) {
            value.pids = read_pids(*items);
        }
    }
    std::vector<std::string> pids;
    for (const std::uint32_t pid : value.pids) {
        pids.push_back(std::to_string(pid));
    }
    targets.note("pids", pids);
    targets.texts("comms", "names of processes", value.comms, config::glob_problem);
    targets.texts("containers", "ids of containers", value.containers, container_problem);
    targets.finish();
    config.set(std::move(value));
}

}  // namespace gpusnoop::probes
