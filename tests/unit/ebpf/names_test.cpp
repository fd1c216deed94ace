// How `bpftool prog` and `bpftool map` show what runs: of the objects that the build made.
#include <bpf/libbpf.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

constexpr std::size_t max_name_bytes = 15;  // BPF_OBJ_NAME_LEN with its NUL is 16

// Maps that one object makes and others use (bpf/lib/processes/target.bpf.h,
// bpf/lib/processes/follow.bpf.h, bpf/in_flight/): one map, of one name.
const std::set<std::string> shared_maps = {
    "cuda_procs",      "cuda_filter",   "target_procs",    "cuda_threads",   "cuda_times",
    "cuda_times_past", "cuda_gaps",     "cuda_file_waits", "cuda_dev_times", "func_threads",
    "follow_procs",    "follow_filter", "follow_events",   "follow_counts",  "follow_refused"};

struct Names {
    std::vector<std::string> programs;
    std::vector<std::string> maps;
};

Names names_in(const fs::path &file) {
    const std::unique_ptr<bpf_object, decltype(&bpf_object__close)> object(
        bpf_object__open_file(file.c_str(), nullptr), &bpf_object__close);
    INFO(file);
    REQUIRE(object);
    Names names;
    bpf_program *program = nullptr;
    while ((program = bpf_object__next_program(object.get(), program)) != nullptr) {
        names.programs.emplace_back(bpf_program__name(program));
    }
    bpf_map *map = nullptr;
    while ((map = bpf_object__next_map(object.get(), map)) != nullptr) {
        if (!bpf_map__is_internal(map)) {  // the variables, which libbpf names by the object
            names.maps.emplace_back(bpf_map__name(map));
        }
    }
    REQUIRE_FALSE(names.programs.empty());
    return names;
}

// By their file.
std::map<std::string, Names> built_objects() {
    std::map<std::string, Names> objects;
    std::istringstream files(GPUSNOOP_BPF_OBJECTS);
    for (std::string file; std::getline(files, file, ':');) {
        objects.emplace(fs::path(file).filename(), names_in(file));
    }
    return objects;
}

// Neither in two objects, nor cut by the kernel.
void check_names(const std::map<std::string, Names> &objects, std::vector<std::string> Names::*of,
                 const std::set<std::string> &shared) {
    std::map<std::string, std::string> owners;
    for (const auto &[object, names] : objects) {
        std::set<std::string> probes;
        for (const std::string &name : names.*of) {
            INFO(name << " of " << object);
            CHECK(name.size() <= max_name_bytes);
            if (shared.contains(name)) {
                continue;
            }
            const auto [owner, is_new] = owners.emplace(name, object);
            INFO("also of " << owner->second);
            CHECK(is_new);
            probes.insert(name.substr(0, name.find('_') + 1));
        }
        CAPTURE(object, probes);
        CHECK(probes.size() <= 1);
        CHECK_FALSE(probes.contains(""));  // a name without a probe
    }
}

}  // namespace

TEST_CASE("the names of BPF programs and maps say the probe, and the kernel keeps all of them") {
    const auto objects = built_objects();
    REQUIRE(objects.contains("cuda.bpf.o"));
    REQUIRE(objects.contains("empty.bpf.o"));
    check_names(objects, &Names::programs, {});
    check_names(objects, &Names::maps, shared_maps);
}
