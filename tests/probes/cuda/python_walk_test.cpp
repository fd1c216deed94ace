// The walk over Python's frames in the kernel, in the memory of this process, against the reader of
// the same frames outside of it.
#include <bpf/bpf.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/call_cost/fake_python.h"
#include "bpf/cuda/tables.h"
#include "bpf/lib/python/stacks.h"
#include "exporter/base/fd.h"
#include "exporter/discovery/library.h"
#include "exporter/ebpf/features.h"
#include "exporter/probes/cuda/attach/functions.h"
#include "exporter/probes/cuda/attach/programs.h"
#include "exporter/probes/cuda/memory/kernel_tables.h"
#include "exporter/probes/cuda/settings.h"
#include "exporter/probes/frame/python/frames.h"
#include "exporter/probes/frame/python/site_resolver.h"
#include "exporter/probes/frame/python/tables.h"
#include "exporter/symbols/stacks/patient_reader.h"
#include "tests/harness/exporter.h"
#include "tests/harness/machine/directory.h"

using namespace gpusnoop;
using bench::FakePython;

namespace {

constexpr std::size_t walked_frames = PYTHON_STACK_FRAMES;

ebpf::Attach walk_attach(const std::string &mode) {
    return mode == "session" ? ebpf::Attach::session
           : mode == "multi" ? ebpf::Attach::multi
           : mode == "perf"  ? ebpf::Attach::perf
                             : ebpf::Attach::automatic;
}

// The layout of a version, as 0x030b.
probes::PythonInterpreter layout_of(std::uint64_t version) {
    if (const auto known = probes::python_by_version(version << 16U)) {
        return *known;
    }
    std::array<std::uint64_t, probes::python_offsets_bytes / sizeof(std::uint64_t)> words{};
    std::memcpy(words.data(), "xdebugpy", 8);
    words[1] = version << 16U;
    const bool is_3_13 = version == 0x030d;
    const std::size_t thread = is_3_13 ? 19 : 22;
    const std::size_t frame = is_3_13 ? 28 : 31;
    const std::size_t code = is_3_13 ? 34 : 39;
    words.at(5) = 40;                         // of the runtime: interpreters
    words.at(8) = 0;                          // of an interpreter: the next one
    words.at(9) = 72;                         // the same: its threads
    words.at(thread + 2) = 8;                 // of a thread: the next one
    words.at(thread + 4) = 56;                // the same: its frame
    words.at(thread + 5) = 136;               // its handle
    words.at(thread + 6) = 144;               // its id
    words.at(frame + 1) = 8;                  // of a frame: the previous one
    words.at(frame + 2) = 0;                  // the same: its code
    words.at(frame + 3) = 56;                 // its instruction
    words.at(frame + 5) = is_3_13 ? 70 : 74;  // its owner
    words.at(code + 1) = 112;                 // of a code object: the file
    words.at(code + 3) = 128;                 // the same: the name
    words.at(code + 4) = 136;                 // its table of lines
    words.at(code + 5) = 68;                  // its first line
    words.at(code + 9) = 208;                 // its instructions
    return *probes::python_by_offsets(
        {reinterpret_cast<const char *>(words.data()), sizeof(words)});
}

// A copy of the runtime's stand-in, which this process loads, traced by programs of this test.
class WalkedProcess {
public:
    WalkedProcess(const std::string &mode, const FakePython &python) {
        const std::filesystem::path path = directory_ / "libcudart.so.12";
        std::filesystem::copy_file(harness::standin("12/libcudart.so.12"), path);
        library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        REQUIRE(library_ != nullptr);
        malloc_ = reinterpret_cast<decltype(malloc_)>(::dlsym(library_, "cudaMalloc"));
        REQUIRE(malloc_ != nullptr);
        probes::CudaConfig config;
        config.attach = walk_attach(mode);
        config.pin = probes::Pin::never;
        auto programs = probes::CudaPrograms::load(config, ebpf::probe_features());
        REQUIRE(programs);
        programs_ = std::move(*programs);
        attach(path);
        void *first = nullptr;
        REQUIRE(malloc_(&first, 1) == 0);
        const auto own = static_cast<std::uint32_t>(::getpid());
        cuda_live_process process{};
        REQUIRE(bpf_map_lookup_elem(programs_->tables().processes, &own, &process) == 0);
        key_ = {own, process.since_ns};
        tables().set_interpreter(key_, python.interpreter());
    }
    ~WalkedProcess() {
        probes_ = {};
        ::dlclose(library_);
    }
    WalkedProcess(const WalkedProcess &) = delete;
    WalkedProcess &operator=(const WalkedProcess &) = delete;

    // What the walk has found at an allocation; the allocation is known in any case.
    [[nodiscard]] std::vector<probes::PythonStackFrame> allocate() const {
        void *memory = nullptr;
        REQUIRE(malloc_(&memory, 64) == 0);
        const cuda_live_key key{reinterpret_cast<std::uint64_t>(memory), key_.since_ns, key_.tgid,
                                CUDA_LIVE_MEMORY};
        cuda_live live{};
        REQUIRE(bpf_map_lookup_elem(programs_->tables().live, &key, &live) == 0);
        CHECK(live.bytes == 64);
        return tables().stack(key_, live.python);
    }

private:
    void attach(const std::filesystem::path &path) {
        discovery::Library library;
        library.file = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat status{};
        REQUIRE(::fstat(library.file.get(), &status) == 0);
        library.id = {status.st_ino, 0, 0, 0};
        library.name = path.filename().string();
        auto places = programs_->find(library);
        REQUIRE(places);
        std::erase_if(places->points, [](const ebpf::AttachPoint &point) {
            const auto *const function = probes::function_of(point.cookie);
            return function == nullptr || std::string(function->symbol) != "cudaMalloc";
        });
        REQUIRE(places->points.size() == 1);
        auto attached = programs_->attach(library, *places);
        REQUIRE(attached);
        probes_ = std::move(*attached);
    }
    [[nodiscard]] probes::PythonTables tables() const {
        return {programs_->python_tables(),
                [tables = probes::CudaTables(programs_->tables())](const auto &one) {
                    return tables.is_running(one);
                }};
    }

    const harness::TemporaryDirectory directory_;
    void *library_ = nullptr;
    int (*malloc_)(void **, std::size_t) = nullptr;
    std::unique_ptr<probes::CudaPrograms> programs_;
    ebpf::UprobeSet probes_;
    probes::ProcessKey key_;
};

// By the reader.
std::vector<probes::PythonCall> read_calls(const FakePython &python) {
    const auto own = static_cast<std::uint32_t>(::getpid());
    const symbols::ReadMemory read = symbols::read_memory_at_once;
    auto calls =
        probes::python_calls(python.interpreter(), own, static_cast<std::uint32_t>(::gettid()),
                             probes::python_states(python.interpreter(), own, read), read);
    calls.resize(std::min(calls.size(), walked_frames));
    return calls;
}

void check_same(const std::vector<probes::PythonStackFrame> &walked,
                const std::vector<probes::PythonCall> &calls) {
    REQUIRE(walked.size() == calls.size());
    for (std::size_t i = 0; i < walked.size(); i++) {
        CAPTURE(i);
        CHECK(walked[i].call.code == calls[i].code);
        CHECK(walked[i].call.instruction == calls[i].instruction);
        CHECK(walked[i].call.is_called_by_c == calls[i].is_called_by_c);
        CHECK(walked[i].identity != 0);
    }
}

}  // namespace

TEST_CASE("the kernel finds the Python functions that a reader of the process finds",
          "[kernel][modes]") {
    harness::require_bpf();
    const std::string mode = GENERATE(from_range(harness::attach_modes()));
    const std::uint64_t version = GENERATE(0x030b, 0x030c, 0x030d, 0x030e);
    CAPTURE(mode, version);
    FakePython python(layout_of(version), 100);
    const WalkedProcess process(mode, python);
    const python_layout &layout = python.interpreter().frames;
    const auto calls = read_calls(python);
    REQUIRE(calls.size() == walked_frames);
    const auto walked = process.allocate();
    check_same(walked, calls);
    CHECK(process.allocate()[7].identity == walked[7].identity);

    // Others at the same addresses.
    if (python.interpreter().code.has_version) {
        FakePython::put(python.code(7), 92, std::uint32_t{99});
    } else {
        FakePython::put(python.code(7), FakePython::name_at + PYTHON_HASH_OF_TEXT,
                        std::uint64_t{99});
    }
    const auto other = process.allocate();
    check_same(other, calls);
    CHECK(other[6].identity == walked[6].identity);
    CHECK(other[7].identity != walked[7].identity);

    // Addresses with tags are those of 3.14.
    FakePython::put(python.frame(5), layout.frame_code,
                    FakePython::address_of(python.code(5)) | 1U);
    check_same(process.allocate(), calls);

    // C has called some of them.
    for (const std::size_t i : {std::size_t{3}, std::size_t{9}}) {
        if (layout.owner_shim != 0) {
            FakePython::put(python.frame(i), layout.frame_owner,
                            static_cast<std::uint8_t>(layout.owner_shim));
        } else {
            FakePython::put(python.frame(i), layout.frame_is_entry, std::uint8_t{1});
        }
    }
    const auto with_c = read_calls(python);
    CHECK(std::ranges::count_if(with_c, &probes::PythonCall::is_called_by_c) == 2);
    check_same(process.allocate(), with_c);

    // A circle, and an end.
    FakePython::put(python.frame(20), layout.frame_previous,
                    FakePython::address_of(python.frame(2)));
    REQUIRE(read_calls(python).size() == walked_frames);
    check_same(process.allocate(), read_calls(python));
    FakePython::put(python.frame(20), layout.frame_previous, std::uint64_t{0});
    check_same(process.allocate(), read_calls(python));
    FakePython::put(python.frame(20), layout.frame_previous, std::uint64_t{0xdead000});
    check_same(process.allocate(), read_calls(python));
}

TEST_CASE("an interpreter of random memory has the right allocations, and 64 functions at most",
          "[kernel]") {
    harness::require_bpf();
    const std::uint64_t version = GENERATE(0x030b, 0x030c, 0x030d, 0x030e);
    CAPTURE(version);
    std::mt19937_64 random(20'261'129);  // NOLINT: the same in each run
    FakePython python(layout_of(version), 40);
    const WalkedProcess process("auto", python);
    auto &objects = python.objects();
    for (int round = 0; round < 2'000; round++) {
        const auto before = objects;
        for (int change = 0; change < 4; change++) {
            // Numbers, and addresses of anything in it.
            const std::uint64_t word =
                random() % 2 == 0 ? random() >> random() % 64
                                  : FakePython::address_of(objects[random() % objects.size()]) +
                                        (random() % 2 == 0 ? 0 : random() % 64 * 8);
            objects[random() % objects.size()][random() % 24] = word;
        }
        CHECK(process.allocate().size() <= walked_frames);
        std::ranges::copy(before, objects.begin());
    }
}
